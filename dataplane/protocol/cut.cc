#include "dataplane/protocol/cut.h"

#include <numeric>

namespace tally::protocol {
namespace {

// Blocks of the weights before `index` in part order, by largest remainder on the running sum: the
// cumulative share is rounded once, so every part is within one block of its exact share and the
// parts tile the operation without gap.
std::uint64_t blocks_before(const Plan& plan, std::uint32_t home, std::uint64_t blocks,
                            std::uint32_t index) {
  const auto trees = static_cast<std::uint32_t>(plan.weights.size());
  std::uint64_t weight = 0;
  for (std::uint32_t i = 0; i < index; ++i) weight += plan.weights[(home + i) % trees];
  const std::uint64_t exact = blocks * weight;  // below 2^52: wire::kMaxBytes bounds the blocks
  return (exact + kWeightUnit / 2) / kWeightUnit;
}

}  // namespace

Plan even_plan(std::uint32_t trees, std::uint64_t split_bytes) {
  Plan plan;
  plan.split_bytes = split_bytes;
  plan.weights.assign(trees, kWeightUnit / trees);
  for (std::uint32_t i = 0; i < kWeightUnit % trees; ++i) ++plan.weights[i];
  return plan;
}

bool valid(const Plan& plan) {
  if (plan.weights.empty() || plan.weights.size() > kMaxTrees) return false;
  return std::accumulate(plan.weights.begin(), plan.weights.end(), std::uint64_t{0}) == kWeightUnit;
}

// The golden-ratio sequence {tag * phi}: any run of tags, and any arithmetic progression of them,
// falls on the trees in proportion to their weights (Weyl; Knuth 6.4 calls it Fibonacci hashing).
std::uint32_t home_tree(const Plan& plan, std::uint16_t group, std::uint32_t tag) {
  const std::uint32_t point = ((tag + 0x632be5abu * group) * 0x9e3779b1u) >> 16;
  std::uint32_t below = 0;
  for (std::uint32_t tree = 0; tree + 1 < plan.weights.size(); ++tree) {
    below += plan.weights[tree];
    if (point < below) return tree;
  }
  return static_cast<std::uint32_t>(plan.weights.size()) - 1;
}

std::uint32_t part_count(const Plan& plan, const Operand& operand) {
  const bool small = operand.count < plan.split_bytes / element_bytes(operand.type) ||
                     operand.count <= kCutElements;
  return small ? 1 : static_cast<std::uint32_t>(plan.weights.size());
}

Part cut(const Plan& plan, const Operand& operand, std::uint32_t index) {
  const std::uint32_t home = home_tree(plan, operand.group, operand.tag);
  if (part_count(plan, operand) == 1) return Part{home, 0, operand.count};
  const std::uint64_t blocks = (operand.count + kCutElements - 1) / kCutElements;
  const auto edge = [&](std::uint32_t part) {
    const std::uint64_t element = blocks_before(plan, home, blocks, part) * kCutElements;
    return element < operand.count ? element : operand.count;
  };
  const std::uint64_t first = edge(index);
  const auto trees = static_cast<std::uint32_t>(plan.weights.size());
  return Part{(home + index) % trees, first, edge(index + 1) - first};
}

}  // namespace tally::protocol
