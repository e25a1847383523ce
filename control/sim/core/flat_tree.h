// A tree with the ways of its edges, as runs need it in their inner loops.
#pragma once

#include <cstdint>
#include <vector>

#include "control/plan/model/tree.h"
#include "control/sim/core/passages.h"
#include "control/sim/core/tree_set.h"

namespace tally::simulator {

struct FlatTree {
  plan::Shape up;
  plan::Shape down;
  // By machine: the way to its parent, and the way from its parent. kNone at the root and where the
  // machine is not in the tree.
  std::vector<std::uint32_t> up_way;
  std::vector<std::uint32_t> down_way;
  std::vector<std::uint32_t> parent;  // on the way up
};

// Preconditions: each tree is valid, and each of its edges has a route in the directions that it
// carries.
inline std::vector<FlatTree> flat_trees(const TreeSet& set, Passages& passages) {
  std::vector<FlatTree> trees;
  for (const plan::Tree& tree : set.trees) {
    const std::size_t machines = tree.up.size();
    FlatTree flat{
        plan::Shape::of(tree.up, "up").value(), plan::Shape::of(tree.way_down(), "down").value(),
        std::vector<std::uint32_t>(machines, kNone), std::vector<std::uint32_t>(machines, kNone),
        std::vector<std::uint32_t>(machines, kNone)};
    for (plan::VertexId id = 0; id < machines; ++id) {
      if (tree.up[id] >= 0) {
        flat.parent[id] = static_cast<std::uint32_t>(tree.up[id]);
        flat.up_way[id] = passages.way(id, flat.parent[id], true);
      }
      if (tree.way_down()[id] >= 0) {
        flat.down_way[id] =
            passages.way(static_cast<plan::VertexId>(tree.way_down()[id]), id, false);
      }
    }
    trees.push_back(std::move(flat));
  }
  return trees;
}

}  // namespace tally::simulator
