// What a tree of directed edges costs at least: the other half of the check of certificates
// (dual_bound.h). Planners find such trees by other code.
#pragma once

#include <vector>

#include "control/plan/least_cost/square.h"

namespace tally::plan {

// Returns the least cost of a tree in which every vertex of `in` but the root has one edge to a
// parent; infinity when there is none. costs: of the edge from a child (row) to its parent
// (column); infinity where no edge can be. Precondition: in[root].
//
// Method: each vertex takes its cheapest edge, circles become one vertex, and this is repeated (Chu
// and Liu, "On the shortest arborescence of a directed graph", 1965). O(vertices cubed).
double least_arborescence_cost(const Square& costs, const std::vector<bool>& in, std::size_t root);

}  // namespace tally::plan
