#include "control/sim/core/repair.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace tally::simulator {
namespace {

std::vector<std::uint32_t> children_of(const plan::Parents& parents) {
  std::vector<std::uint32_t> children(parents.size());
  for (const std::int32_t parent : parents) {
    if (parent >= 0) ++children[static_cast<std::size_t>(parent)];
  }
  return children;
}

// By machine: the bytes that its vertices sum.
std::vector<double> sums_of(const TreeSet& set, std::size_t machines) {
  std::vector<double> sums(machines);
  for (std::size_t i = 0; i < set.trees.size(); ++i) {
    const auto children = children_of(set.trees[i].up);
    for (std::size_t id = 0; id < machines; ++id) {
      sums[id] += children[id] * static_cast<double>(set.bytes[i]);
    }
  }
  return sums;
}

// Helpers without children have nothing to do.
void prune(plan::Parents& parents, const plan::Network& network) {
  for (bool changed = true; changed;) {
    changed = false;
    const auto children = children_of(parents);
    for (std::size_t id = 0; id < parents.size(); ++id) {
      const bool idle =
          parents[id] >= 0 && children[id] == 0 && network.vertices[id].role == plan::Role::kHelper;
      if (idle) parents[id] = plan::kIsAbsent, changed = true;
    }
  }
}

// `by` is a leaf or absent, so no circle comes about.
void replace(plan::Parents& parents, plan::VertexId failed, plan::VertexId by,
             const plan::Network& network) {
  const std::int32_t above = parents[failed];
  for (std::int32_t& parent : parents) {
    if (parent == static_cast<std::int32_t>(failed)) parent = static_cast<std::int32_t>(by);
  }
  parents[by] = above;
  const bool is_worker = network.vertices[failed].role == plan::Role::kWorker;
  parents[failed] = is_worker ? static_cast<std::int32_t>(by) : plan::kIsAbsent;
  prune(parents, network);
}

}  // namespace

Result<TreeSet> without_node(const TreeSet& set, const plan::Network& network,
                             plan::VertexId failed) {
  TreeSet repaired = set;
  const std::size_t machines = network.machines();
  std::vector<double> sums = sums_of(set, machines);
  for (std::size_t i = 0; i < set.trees.size(); ++i) {
    plan::Tree& tree = repaired.trees[i];
    const auto up = children_of(tree.up);
    const auto down = children_of(tree.way_down());
    const auto sums_here = [&](std::size_t id) { return up[id] > 0 || down[id] > 0; };
    if (!sums_here(failed)) continue;
    std::optional<plan::VertexId> best;
    for (plan::VertexId id = 0; id < machines; ++id) {
      if (id == failed || sums_here(id)) continue;
      if (!best || sums[id] < sums[*best]) best = id;
    }
    if (!best) {
      return refused(
          fmt::format("no machine can take the vertex of {} in tree {}: all others sum "
                      "there already; give the network a helper",
                      network.name_of(failed), i));
    }
    sums[*best] += up[failed] * static_cast<double>(set.bytes[i]);
    replace(tree.up, failed, *best, network);
    if (!tree.down.empty()) replace(tree.down, failed, *best, network);
  }
  return repaired;
}

}  // namespace tally::simulator
