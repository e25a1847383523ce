#include "net/rpc/partition_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tally::rpc {

using nlohmann::json;
using protocol::kAnySize;
using protocol::kMaxTrees;
using protocol::kWeightUnit;
using protocol::Partition;
using protocol::SizeClass;

namespace {

// The size of the largest element. A split at a multiple of it is the same in bytes and in
// elements. The version before counted elements.
constexpr std::uint64_t kElement = 8;
// The value of `divided` in a class that is cut in the order of its trees. A version that knows no
// such classes expects true or false, and refuses the plan.
constexpr const char* kInOrder = "in order";

// True when the version before can express the plan: one class that divides operations among all
// trees, or a second class that keeps small operations whole, with the same trees and weights.
bool fits_weights(const Partition& plan) {
  const SizeClass& large = plan.classes.back();
  if (!large.divided || large.in_order || large.trees.size() != plan.trees ||
      plan.classes.size() > 2 || !plan.homes.empty() || !plan.result_trees.empty()) {
    return false;
  }
  if (plan.classes.size() == 1) return true;
  const SizeClass& small = plan.classes.front();
  return !small.divided && small.trees == large.trees && small.weights == large.weights &&
         (small.max_bytes + 1) % kElement == 0;
}

std::optional<std::uint64_t> number(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<std::uint64_t>();
}

// A tree that has a result tree is a pair of both. So a version that knows no result trees refuses
// the plan.
json trees_of(const Partition& plan, const SizeClass& one) {
  json trees = json::array();
  for (const std::uint32_t tree : one.trees) {
    const std::uint32_t results = plan.result_tree(tree);
    trees.push_back(results == protocol::kNoTree ? json(tree) : json({tree, results}));
  }
  return trees;
}

// Replaces the pairs of trees_of() by their first numbers. False: the plan has no such trees, or
// another class has other result trees.
bool take_result_trees(json& trees, Partition& plan) {
  if (!trees.is_array()) return false;
  for (json& one : trees) {
    if (!one.is_array()) continue;
    const auto pair = read_numbers(one, 2, kMaxTrees - 1);
    if (pair.size() != 2 || pair[0] >= plan.trees) return false;
    if (plan.result_trees.empty()) plan.result_trees.assign(plan.trees, protocol::kNoTree);
    std::uint32_t& results = plan.result_trees[pair[0]];
    if (results != protocol::kNoTree && results != pair[1]) return false;
    results = pair[1];
    one = pair[0];
  }
  return true;
}

std::optional<SizeClass> read_class(const json& one) {
  if (!one.is_object()) return std::nullopt;
  const auto max_bytes = one.find("max_bytes");
  const auto divided = one.find("divided");
  if (max_bytes == one.end() || divided == one.end()) return std::nullopt;
  SizeClass read;
  read.in_order = *divided == kInOrder;
  if (!read.in_order && !divided->is_boolean()) return std::nullopt;
  if (!max_bytes->is_null()) {
    if (!max_bytes->is_number_unsigned()) return std::nullopt;
    read.max_bytes = max_bytes->get<std::uint64_t>();
  }
  read.divided = read.in_order || divided->get<bool>();
  read.trees = read_numbers(one.value("trees", json()), kMaxTrees, kMaxTrees - 1);
  read.weights = read_numbers(one.value("weights", json()), kMaxTrees, kWeightUnit);
  return read;
}

std::optional<std::vector<protocol::Home>> read_homes(const json& sent) {
  if (!sent.is_array() || sent.size() > protocol::kMaxHomes) return std::nullopt;
  std::vector<protocol::Home> homes;
  for (const json& one : sent) {
    const bool three = one.is_array() && one.size() == 3 &&
                       std::all_of(one.begin(), one.end(),
                                   [](const json& part) { return part.is_number_unsigned(); });
    if (!three || one[0].get<std::uint64_t>() > UINT32_MAX ||
        one[2].get<std::uint64_t>() >= kMaxTrees) {
      return std::nullopt;
    }
    homes.push_back(
        {one[0].get<std::uint32_t>(), one[1].get<std::uint64_t>(), one[2].get<std::uint32_t>()});
  }
  return homes;
}

std::optional<Partition> read_plan(const json& sent) {
  if (!sent.is_object()) return std::nullopt;
  const auto trees = number(sent, "trees");
  const auto classes = sent.find("classes");
  if (!trees || *trees > kMaxTrees || classes == sent.end() || !classes->is_array() ||
      classes->size() > protocol::kMaxClasses) {
    return std::nullopt;
  }
  Partition plan{static_cast<std::uint32_t>(*trees), {}};
  for (json one : *classes) {
    const bool fine = one.is_object() && take_result_trees(one["trees"], plan);
    auto read = fine ? read_class(one) : std::nullopt;
    if (!read) return std::nullopt;
    plan.classes.push_back(std::move(*read));
  }
  auto homes = read_homes(sent.value("homes", json::array()));
  if (!homes) return std::nullopt;
  plan.homes = std::move(*homes);
  if (!protocol::valid(plan)) return std::nullopt;
  return plan;
}

}  // namespace

void put_partition(json& object, const Partition& plan) {
  json classes = json::array();
  for (const SizeClass& one : plan.classes) {
    classes.push_back({{"max_bytes", one.max_bytes == kAnySize ? json() : json(one.max_bytes)},
                       {"divided", one.in_order ? json(kInOrder) : json(one.divided)},
                       {"trees", trees_of(plan, one)},
                       {"weights", one.weights}});
  }
  object["plan"] = {{"trees", plan.trees}, {"classes", std::move(classes)}};
  for (const protocol::Home& home : plan.homes) {
    object["plan"]["homes"].push_back({home.tag, home.bytes, home.tree});
  }
}

void put_weights(json& object, const Partition& plan) {
  if (!fits_weights(plan)) return;
  object["weights"] = plan.classes.back().weights;
  object["split_bytes"] = plan.classes.size() == 1 ? 0 : plan.classes.front().max_bytes + 1;
}

std::optional<Partition> find_partition(const json& object) {
  if (!object.is_object()) return std::nullopt;
  if (const auto plan = object.find("plan"); plan != object.end()) return read_plan(*plan);
  const auto weights = read_numbers(object.value("weights", json()), kMaxTrees, kWeightUnit);
  const auto split = number(object, "split_bytes");
  if (!split || weights.empty()) return std::nullopt;
  Partition plan = protocol::weighted_partition(weights, *split);
  if (!protocol::valid(plan)) return std::nullopt;
  return plan;
}

std::vector<std::uint32_t> read_numbers(const json& array, std::size_t count, std::uint32_t max) {
  std::vector<std::uint32_t> numbers;
  if (!array.is_array() || array.size() > count) return {};
  for (const json& one : array) {
    if (!one.is_number_unsigned() || one.get<std::uint64_t>() > max) return {};
    numbers.push_back(one.get<std::uint32_t>());
  }
  return numbers;
}

}  // namespace tally::rpc
