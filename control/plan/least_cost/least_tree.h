// What a tree costs at least that joins given vertices and may use others: a Steiner tree. This is
// one half of the check of certificates (dual_bound.h). Planners find trees by other code.
#pragma once

#include <cstdint>
#include <vector>

#include "control/plan/least_cost/square.h"

namespace tally::plan {

// Returns a number that no tree's cost is below, and infinity when there is no tree. The tree has
// all vertices whose `must` is true, and any others.
//
// costs: of the edge between two vertices, the same both ways, at least 0; infinity where no edge
// can be. blocks: by vertex; vertices of one block may be alike, and so may whole blocks. They
// decide how long the search takes, and not what it finds.
//
// The number is exact when there are few different choices of other vertices: vertices with the
// same costs to all others count as alike, and so do blocks. Each choice costs O(kinds of vertices
// squared). Otherwise the number is that of Kruskal's algorithm when it counts only edges that join
// two parts with vertices that must be in the tree, which may be lower.
double least_tree_cost(const Square& costs, const std::vector<bool>& must,
                       const std::vector<std::uint32_t>& blocks);

}  // namespace tally::plan
