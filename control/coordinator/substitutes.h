// Which node has each vertex of a plan's trees. A machine's own, where that may have trees; else a
// substitute, so that the cut and the shape of the trees stay, and by that the bits of every
// result. Pure.
#pragma once

#include <map>
#include <vector>

#include "base/result.h"
#include "control/coordinator/file_trees.h"

namespace tally::control {

struct Seats {
  std::vector<std::map<plan::VertexId, NodeId>> by_tree;  // of the machines that sum in it
  // By substitute: the machines that it has vertices of, rising.
  std::map<NodeId, std::vector<plan::VertexId>> stands_in_for;
};

// A vertex without a node of its own gets the one that has least to carry by the plan's weights,
// the lowest number first among equals: never one that sums in the same tree, nor one whose NICs
// are not all in use (its trees are no more than its shards). `known`: all that the plan names,
// also those that are drained or have left, which are marked `draining`; lost NICs are marked. An
// error names the machine that nobody can stand in for, and why.
Result<Seats> find_seats(const MachinePlan& plan, const FileTrees& found, const Members& known);

}  // namespace tally::control
