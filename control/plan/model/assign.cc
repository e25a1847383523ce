#include "control/plan/model/assign.h"

#include <algorithm>
#include <numeric>

namespace tally::plan {

Assignment assign(std::span<const std::uint64_t> sizes, std::span<const std::uint32_t> weights,
                  std::span<const std::uint64_t> before) {
  Assignment assignment;
  assignment.tree_of.assign(sizes.size(), 0);
  assignment.bytes.assign(before.begin(), before.end());
  assignment.bytes.resize(weights.size());
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });
  for (const std::size_t tensor : order) {
    std::size_t best = weights.size();
    double best_end = 0;
    for (std::size_t tree = 0; tree < weights.size(); ++tree) {
      if (weights[tree] == 0) continue;
      const double end =
          static_cast<double>(assignment.bytes[tree] + sizes[tensor]) / weights[tree];
      if (best == weights.size() || end < best_end) {
        best = tree;
        best_end = end;
      }
    }
    assignment.tree_of[tensor] = static_cast<std::uint32_t>(best);
    assignment.bytes[best] += sizes[tensor];
  }
  const auto total = std::accumulate(assignment.bytes.begin(), assignment.bytes.end(), 0.0);
  const auto weight = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (total == 0) return assignment;
  for (std::size_t tree = 0; tree < weights.size(); ++tree) {
    if (weights[tree] == 0) continue;
    const double even = total * weights[tree] / weight;
    assignment.imbalance =
        std::max(assignment.imbalance, static_cast<double>(assignment.bytes[tree]) / even);
  }
  return assignment;
}

}  // namespace tally::plan
