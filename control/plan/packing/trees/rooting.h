// From the edges of a tree to parents: the root at the centre, no more levels than nodes serve, and
// no leaf that is no worker.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "control/plan/model/plan.h"
#include "control/plan/packing/trees/group_tree.h"

namespace tally::plan {

inline constexpr std::uint32_t kAnyHeight = UINT32_MAX;

// Returns the tree with its root at its centre. If it has more than max_height levels, machines
// below them get the cheapest parent that is high enough. So the tree may be dearer than its edges
// are. Leaves that are no workers are left out. price(a, b): of the edge between two machines,
// infinity where no edge can be. Precondition: the edges are a tree of all workers.
Parents root_at_centre(std::size_t machines, std::span<const TreeEdge> edges,
                       const std::vector<bool>& is_worker, std::uint32_t max_height,
                       const std::function<double(VertexId, VertexId)>& price);

// Returns the hops of the tree's longest way from the root. Precondition: `parents` is a tree.
std::uint32_t levels_of(const Parents& parents);

// Leaves out machines without children that are no workers, again and again. The root stays.
void drop_idle_leaves(Parents& parents, const std::vector<bool>& is_worker);

// Moves machines below max_height levels to the cheapest parent that is high enough. price(child,
// parent): of the edge. A machine stays where no parent is possible.
void limit_height(Parents& parents, std::uint32_t max_height,
                  const std::function<double(VertexId, VertexId)>& price);

}  // namespace tally::plan
