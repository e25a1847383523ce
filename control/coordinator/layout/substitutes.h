// Which node has each vertex of a plan's trees: the machine's own node when it may have trees, else
// a substitute. So the cut and the shape of the trees stay the same, and with them the bits of
// every result. Pure.
#pragma once

#include <map>
#include <vector>

#include "base/result.h"
#include "control/coordinator/layout/file_trees.h"

namespace tally::control {

struct Seats {
  std::vector<std::map<plan::VertexId, NodeId>> by_tree;  // by tree: the nodes of the machines that
                                                          // sum in it
  // By substitute: the machines whose vertices it has, ascending.
  std::map<NodeId, std::vector<plan::VertexId>> stands_in_for;
};

// Finds the nodes. A vertex whose own node may not have it gets the node with the smallest load by
// the plan's weights, and among equals the one with the lowest number. A substitute never sums in
// the same tree already. A node with lost NICs is no substitute, because its trees must not exceed
// its usable shards. known: all members that the plan names, also those that are drained or have
// left, which are marked draining; lost NICs are marked. An error names the machine that no node
// can replace, and why.
Result<Seats> find_seats(const MachinePlan& plan, const FileTrees& found, const Members& known);

}  // namespace tally::control
