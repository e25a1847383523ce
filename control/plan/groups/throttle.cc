#include "control/plan/groups/throttle.h"

#include <algorithm>
#include <numeric>

namespace tally::plan::groups {

std::optional<Rates> throttle(std::span<const Exchange> groups, double most, double staleness) {
  const auto count = static_cast<double>(groups.size());
  if (count > 1 + staleness) return std::nullopt;
  double total = 0, longest = 0;
  for (const Exchange& group : groups) {
    total += 1 / group.period;
    longest = std::max(longest, group.period);
  }
  total = std::min({total, most, (1 + staleness) / longest});
  const double least = total / (1 + staleness);
  double left = total - count * least;
  std::vector<std::size_t> order(groups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return groups[a].samples > groups[b].samples;
  });
  Rates found;
  found.rates.assign(groups.size(), 0);
  for (const std::size_t i : order) {
    const double more = std::clamp(1 / groups[i].period - least, 0.0, std::max(left, 0.0));
    left -= more;
    found.rates[i] = least + more;
    found.throughput += groups[i].samples * found.rates[i];
  }
  return found;
}

}  // namespace tally::plan::groups
