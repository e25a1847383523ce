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
  if (one.in_order && !one.divided) return false;
  if (!rising(one.trees) || one.trees.back() >= trees) return false;
  if (std::find(one.weights.begin(), one.weights.end(), 0U) != one.weights.end()) return false;
  return std::accumulate(one.weights.begin(), one.weights.end(), std::uint64_t{0}) == kWeightUnit;
}

// Each result tree carries the results of one tree, and no sums.
bool valid_results(const Partition& plan) {
  if (plan.result_trees.empty()) return true;
  if (plan.result_trees.size() != plan.trees) return false;
  std::vector<bool> carries(plan.trees);
  for (const std::uint32_t tree : plan.result_trees) {
    if (tree == kNoTree) continue;
    if (tree >= plan.trees || carries[tree] || plan.result_trees[tree] != kNoTree) return false;
    carries[tree] = true;
  }
  const auto has_sums = [&](std::uint32_t tree) { return tree >= plan.trees || !carries[tree]; };
  return std::all_of(plan.homes.begin(), plan.homes.end(),
                     [&](const Home& home) { return has_sums(home.tree); }) &&
         std::all_of(plan.classes.begin(), plan.classes.end(), [&](const SizeClass& one) {
           return std::all_of(one.trees.begin(), one.trees.end(), has_sums);
         });
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

// Returns how many parts have sums.
std::uint32_t sum_parts(const SizeClass& one, const Operand& operand) {
  const bool whole = !one.divided || operand.count <= kCutElements;
  return whole ? 1 : static_cast<std::uint32_t>(one.trees.size());
}

// The parts of an operation, each with the tree of its sums.
class Parts {
 public:
  Parts(const Partition& plan, const Operand& operand)
      : plan_(plan),
        operand_(operand),
        class_(class_of(plan, operand)),
        home_(home_index(class_, operand)),
        sums_(sum_parts(class_, operand)) {}

  bool whole() const { return sums_ == 1; }
  bool is_result(std::uint32_t index) const { return index >= sums_; }
  std::uint32_t count() const { return sums_ + results_before(sums_); }

  // Where the elements of the sums lie in the operation. Precondition: !is_result(index).
  Part range(std::uint32_t index) const {
    Part part{tree(index), 0, operand_.count};
    if (whole()) return part;
    const std::size_t first = class_.in_order ? 0 : home_;
    const std::size_t trees = class_.trees.size();
    const std::size_t place = (home_ + index + trees - first) % trees;
    part.first = elements_before(first, place);
    part.count = elements_before(first, place + 1) - part.first;
    return part;
  }

  // The tree of the sums. Precondition: !is_result(index).
  std::uint32_t tree(std::uint32_t index) const {
    if (!whole()) return class_.trees[(home_ + index) % class_.trees.size()];
    const Home* planned = known(plan_, operand_);
    return planned != nullptr ? planned->tree : class_.trees[home_];
  }

  // Precondition: is_result(index).
  std::uint32_t sums_of(std::uint32_t index) const {
    std::uint32_t at = 0;
    for (std::uint32_t left = index - sums_; left > 0 || !has_result(at); ++at) {
      if (has_result(at)) --left;
    }
    return at;
  }
  std::uint32_t result_of(std::uint32_t index) const {
    return has_result(index) ? sums_ + results_before(index) : kNoPart;
  }

 private:
  bool has_result(std::uint32_t index) const { return plan_.result_tree(tree(index)) != kNoTree; }
  std::uint32_t results_before(std::uint32_t index) const {
    if (plan_.result_trees.empty()) return 0;
    std::uint32_t results = 0;
    for (std::uint32_t i = 0; i < index; ++i) results += has_result(i) ? 1 : 0;
    return results;
  }

  // Returns the elements of the `places` trees from `first` on, by largest remainder on the running
  // sum. The cumulative share is rounded once. So every part is within one block of its exact
  // share, and the parts cover the operation without gaps.
  std::uint64_t elements_before(std::size_t first, std::size_t places) const {
    std::uint64_t weight = 0;
    for (std::size_t i = 0; i < places; ++i) {
      weight += class_.weights[(first + i) % class_.weights.size()];
    }
    const std::uint64_t blocks = (operand_.count + kCutElements - 1) / kCutElements;
    const std::uint64_t exact = blocks * weight;  // below 2^52: wire::kMaxBytes bounds the blocks
    const std::uint64_t before = (exact + kWeightUnit / 2) / kWeightUnit * kCutElements;
    return std::min(before, operand_.count);
  }

  const Partition& plan_;
  const Operand& operand_;
  const SizeClass& class_;
  std::size_t home_;
  std::uint32_t sums_;  // parts that have sums; they come first
};

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

std::uint32_t Partition::sum_tree(std::uint32_t tree) const {
  const auto found = std::find(result_trees.begin(), result_trees.end(), tree);
  if (found == result_trees.end()) return kNoTree;
  return static_cast<std::uint32_t>(found - result_trees.begin());
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
  return plan.classes.back().max_bytes == kAnySize && valid_results(plan) &&
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
  if (plan.result_trees.empty()) return sum_parts(class_of(plan, operand), operand);
  return Parts(plan, operand).count();
}

std::uint32_t tree_of(const Partition& plan, const Operand& operand, std::uint32_t index) {
  const Parts parts(plan, operand);
  if (!parts.is_result(index)) return parts.tree(index);
  return plan.result_tree(parts.tree(parts.sums_of(index)));
}

Part cut(const Partition& plan, const Operand& operand, std::uint32_t index) {
  const Parts parts(plan, operand);
  const std::uint32_t sum_part = parts.is_result(index) ? parts.sums_of(index) : index;
  Part part = parts.range(sum_part);
  if (sum_part != index) part.tree = plan.result_tree(part.tree);
  return part;
}

std::uint32_t other_part(const Partition& plan, const Operand& operand, std::uint32_t index) {
  const Parts parts(plan, operand);
  return parts.is_result(index) ? parts.sums_of(index) : parts.result_of(index);
}

}  // namespace tally::protocol
