// The trees of a plan of machines, each once, and who has a part in them. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "control/coordinator/layout.h"
#include "control/coordinator/store.h"
#include "control/plan/plan.h"
#include "control/plan/tree.h"

namespace tally::control {

// A tree of the file, wherever it is a tree of: classes may share one.
struct FileTree {
  const plan::Parents* up;
  plan::Shape shape;
  std::uint32_t least = plan::kWeightUnit;  // of its weights: no more copies than that
};

struct FileTrees {
  std::vector<FileTree> trees;
  std::vector<std::vector<std::size_t>> by_class;  // of each class's trees: which of them
};

// Points into the plan. Precondition: as MachinePlan.
FileTrees trees_of(const MachinePlan& plan);

// A machine that sums: all but workers that are leaves.
bool sums(const plan::Shape& shape, plan::VertexId id);
// How many trees of the file sum there.
std::uint32_t trees_at(const FileTrees& found, plan::VertexId id);

// The member that the machine is by its name; nullptr: none.
const std::pair<const NodeId, Member>* member_of(const MachinePlan& plan, const Members& members,
                                                 plan::VertexId machine);
// Precondition: lost NICs are marked.
bool has_lost_rails(const Member& member);

}  // namespace tally::control
