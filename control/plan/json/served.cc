#include "control/plan/json/served.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "control/plan/json/plan_json.h"
#include "control/plan/model/pieces.h"
#include "control/plan/model/tree.h"

namespace tally::plan {
namespace {

template <typename... Arguments>
Error refused(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  return Error{Status::kRefused, fmt::format(text, std::forward<Arguments>(arguments)...)};
}

// A vertex with child nodes has a buffer for each child. A worker's own gradient is a child too.
Outcome check_children(const Network& network, const Domain& domain, const Parents& parents) {
  const auto shape = Shape::of(parents, "up");
  if (!shape) return shape.error();
  for (const VertexId id : shape->order()) {
    const std::size_t children = inputs_of(domain, *shape, id);
    if (shape->height(id) < 2 || children <= kServedChildren) continue;
    return refused(
        "domain \"{}\": {} has {} children in a tree of several levels, its own gradient included, "
        "and nodes take {}: put some below others",
        domain.name, network.name_of(id), children, kServedChildren);
  }
  return Unit{};
}

// A node is one machine of a plan. A worker that is a leaf in each tree needs no node of its own.
Outcome check_names(const Network& network, const Domain& domain) {
  std::vector<bool> sums(network.machines());
  const auto add = [&](const Parents& parents) {
    for (const std::int32_t parent : parents) {
      if (parent >= 0) sums[static_cast<std::size_t>(parent)] = true;
    }
    const auto root = std::find(parents.begin(), parents.end(), kIsRoot);
    if (root != parents.end()) sums[static_cast<std::size_t>(root - parents.begin())] = true;
  };
  for (const SizeClass& one : domain.classes) {
    for (const Tree& tree : one.trees) {
      add(tree.up);
      add(tree.down);
    }
  }
  std::map<std::string_view, VertexId> taken;
  for (VertexId id = 0; id < sums.size(); ++id) {
    const std::string& name = network.vertices[id].name;
    if (!sums[id] || name.empty()) continue;
    const auto [other, is_first] = taken.emplace(name, id);
    if (is_first) continue;
    return refused(
        "nodes[{}] and nodes[{}] both sum, and both have \"addr\": \"{}\"; a node is one machine "
        "of a plan: give each its own",
        other->second, id, name);
  }
  return Unit{};
}

// Stars need no memory between nodes.
Outcome check_windows(const Domain& domain) {
  for (std::size_t i = 0; i < domain.classes.size(); ++i) {
    const SizeClass& one = domain.classes[i];
    if (one.window <= kMostPieces || !has_levels(one)) continue;
    return refused(
        "domain \"{}\", classes[{}].window = {}: nodes keep memory for at most {} chunks each way "
        "between two of them; lower it, or leave it out",
        domain.name, i, one.window, kMostPieces);
  }
  return Unit{};
}

}  // namespace

Outcome check_served(const Network& network, const Domain& domain) {
  if (domain.classes.size() > kServedClasses) {
    return refused("domain \"{}\" has {} classes, and nodes take {}: leave some out", domain.name,
                   domain.classes.size(), kServedClasses);
  }
  std::set<std::pair<Parents, Parents>> known;
  std::size_t trees = 0;
  for (std::size_t i = 0; i < domain.classes.size(); ++i) {
    for (const Tree& tree : domain.classes[i].trees) {
      const bool two_ways = tree.has_other_way();
      if (!known.emplace(tree.up, two_ways ? tree.down : Parents{}).second) continue;
      trees += two_ways ? 2 : 1;
      if (auto fit = check_children(network, domain, tree.up); !fit) return fit;
      if (!two_ways) continue;
      if (auto fit = check_children(network, domain, tree.down); !fit) return fit;
    }
  }
  if (auto fit = check_windows(domain); !fit) return fit;
  if (auto fit = check_names(network, domain); !fit) return fit;
  if (trees <= kServedTrees) return Unit{};
  return refused(
      "domain \"{}\" has {} trees, and nodes take {}: make a plan of fewer, with tallyctl plan "
      "make "
      "--network",
      domain.name, trees, kServedTrees);
}

Outcome check_served(const Plan& plan) {
  for (const Domain& domain : plan.domains) {
    if (auto fit = check_served(plan.network, domain); !fit) return fit;
  }
  const std::size_t bytes = write_plan(plan).size();
  if (bytes <= kServedBytes) return Unit{};
  return refused(
      "the plan has {} bytes, and a coordinator keeps {}: leave out machines, trees or "
      "tensors that it need not name",
      bytes, kServedBytes);
}

}  // namespace tally::plan
