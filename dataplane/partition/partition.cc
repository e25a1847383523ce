#include "dataplane/partition/partition.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace tally::protocol {
namespace {

bool rising(const std::vector<std::uint32_t>& numbers) {
  return std::adjacent_find(numbers.begin(), numbers.end(), std::greater_equal<>()) ==
         numbers.end();
}

bool valid(const SizeClass& one, std::uint32_t trees) {
  if (one.trees.empty() || one.trees.size() != one.weights.size()) return false;
  if (!rising(one.trees) || one.trees.back() >= trees) return false;
  if (std::find(one.weights.begin(), one.weights.end(), 0U) != one.weights.end()) return false;
  return std::accumulate(one.weights.begin(), one.weights.end(), std::uint64_t{0}) == kWeightUnit;
}

// Returns the operation's home in the plan; nullptr when it has none.
const Home* known(const Partition& plan, const Operand& operand) {
  if (plan.homes.empty() || operand.group != 0) return nullptr;
  const auto found =
      std::lower_bound(plan.homes.begin(), plan.homes.end(), operand.tag,
                       [](const Home& home, std::uint32_t tag) { return home.tag < tag; });
  const std::uint64_t size = element_bytes(operand.type);
  const bool same = found != plan.homes.end() && found->tag == operand.tag &&
                    found->bytes % size == 0 && found->bytes / size == operand.count;
  return same ? &*found : nullptr;
}

// Returns the index of the home tree in its class, by the golden-ratio sequence {tag * phi}. Any
// run of tags, and any arithmetic progression of them, falls on the trees in proportion to their
// weights (Weyl; Knuth 6.4 calls it Fibonacci hashing).
std::size_t home_index(const SizeClass& one, const Operand& operand) {
  const std::uint32_t seed = operand.tag + 0x632be5abu * operand.group;
  const std::uint32_t point = (seed * 0x9e3779b1u) >> 16;
  std::uint32_t below = 0;
  for (std::size_t i = 0; i + 1 < one.weights.size(); ++i) {
    below += one.weights[i];
    if (point < below) return i;
  }
  return one.weights.size() - 1;
}

std::uint32_t parts(const SizeClass& one, const Operand& operand) {
  const bool whole = !one.divided || operand.count <= kCutElements;
  return whole ? 1 : static_cast<std::uint32_t>(one.trees.size());
}

std::uint32_t tree_of(const Partition& plan, const SizeClass& one, std::size_t home,
                      const Operand& operand, std::uint32_t index) {
  if (parts(one, operand) > 1) return one.trees[(home + index) % one.trees.size()];
  const Home* planned = known(plan, operand);
  return planned != nullptr ? planned->tree : one.trees[home];
}

// Returns the blocks of the weights before `index` in part order, by largest remainder on the
// running sum. The cumulative share is rounded once. So every part is within one block of its exact
// share, and the parts cover the operation without gaps.
std::uint64_t blocks_before(const SizeClass& one, std::size_t home, std::uint64_t blocks,
                            std::uint32_t index) {
  std::uint64_t weight = 0;
  for (std::uint32_t i = 0; i < index; ++i) weight += one.weights[(home + i) % one.weights.size()];
  const std::uint64_t exact = blocks * weight;  // below 2^52: wire::kMaxBytes bounds the blocks
  return (exact + kWeightUnit / 2) / kWeightUnit;
}

}  // namespace

Partition weighted_partition(const std::vector<std::uint32_t>& weights, std::uint64_t split_bytes) {
  SizeClass large{.divided = true, .trees = {}, .weights = {}};
  for (std::uint32_t tree = 0; tree < weights.size(); ++tree) {
    if (weights[tree] == 0) continue;
    large.trees.push_back(tree);
    large.weights.push_back(weights[tree]);
  }
  Partition plan{static_cast<std::uint32_t>(weights.size()), {}};
  if (split_bytes > 0) {
    plan.classes.push_back({split_bytes - 1, false, large.trees, large.weights});
  }
  plan.classes.push_back(std::move(large));
  return plan;
}

Partition even_partition(std::uint32_t trees, std::uint64_t split_bytes) {
  std::vector<std::uint32_t> weights(trees, kWeightUnit / trees);
  for (std::uint32_t i = 0; i < kWeightUnit % trees; ++i) ++weights[i];
  return weighted_partition(weights, split_bytes);
}

bool valid(const Partition& plan) {
  if (plan.trees == 0 || plan.trees > kMaxTrees) return false;
  if (plan.classes.empty() || plan.classes.size() > kMaxClasses) return false;
  for (std::size_t i = 1; i < plan.classes.size(); ++i) {
    if (plan.classes[i - 1].max_bytes >= plan.classes[i].max_bytes) return false;
  }
  const auto out_of_order = std::adjacent_find(
      plan.homes.begin(), plan.homes.end(),
      [](const Home& before, const Home& after) { return before.tag >= after.tag; });
  if (plan.homes.size() > kMaxHomes || out_of_order != plan.homes.end()) return false;
  for (const Home& home : plan.homes) {
    if (home.tree >= plan.trees) return false;
  }
  return plan.classes.back().max_bytes == kAnySize &&
         std::all_of(plan.classes.begin(), plan.classes.end(),
                     [&](const SizeClass& one) { return valid(one, plan.trees); });
}

const SizeClass& class_of(const Partition& plan, const Operand& operand) {
  const std::uint64_t size = element_bytes(operand.type);
  std::size_t i = 0;
  while (operand.count > plan.classes[i].max_bytes / size && i + 1 < plan.classes.size()) ++i;
  return plan.classes[i];
}

std::uint32_t home_tree(const Partition& plan, const Operand& operand) {
  return tree_of(plan, operand, 0);
}

std::uint32_t part_count(const Partition& plan, const Operand& operand) {
  return parts(class_of(plan, operand), operand);
}

std::uint32_t tree_of(const Partition& plan, const Operand& operand, std::uint32_t index) {
  const SizeClass& one = class_of(plan, operand);
  return tree_of(plan, one, home_index(one, operand), operand, index);
}

Part cut(const Partition& plan, const Operand& operand, std::uint32_t index) {
  const SizeClass& one = class_of(plan, operand);
  const std::size_t home = home_index(one, operand);
  const std::uint32_t tree = tree_of(plan, one, home, operand, index);
  if (parts(one, operand) == 1) return Part{tree, 0, operand.count};
  const std::uint64_t blocks = (operand.count + kCutElements - 1) / kCutElements;
  const auto edge = [&](std::uint32_t part) {
    const std::uint64_t element = blocks_before(one, home, blocks, part) * kCutElements;
    return element < operand.count ? element : operand.count;
  };
  const std::uint64_t first = edge(index);
  return Part{tree, first, edge(index + 1) - first};
}

}  // namespace tally::protocol
