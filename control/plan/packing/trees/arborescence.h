// The cheapest tree of directed edges, for networks that differ by direction.
#pragma once

#include <optional>
#include <span>

#include "control/plan/least_cost/square.h"
#include "control/plan/model/plan.h"

namespace tally::plan {

struct Arborescence {
  double price = 0;
  Parents parents;  // by machine; those that are no members are absent
};

// Returns the cheapest tree in which every member but the root has one edge to a parent; nullopt
// when there is none. prices: of the edge from a child (row) to its parent (column); infinity where
// no edge can be. Precondition: the root is a member.
//
// Method: grow a path along cheapest edges; a circle becomes one vertex (Edmonds, "Optimum
// branchings", 1967; grown as by Gabow, Galil, Spencer and Tarjan, 1986). O(members squared).
std::optional<Arborescence> cheapest_arborescence(const Square& prices,
                                                  std::span<const VertexId> members, VertexId root);

}  // namespace tally::plan
