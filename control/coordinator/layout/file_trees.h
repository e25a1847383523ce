// The distinct trees of a plan of machines, and which machines take part in each. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "control/coordinator/layout/layout.h"
#include "control/coordinator/records/store.h"
#include "control/plan/model/plan.h"
#include "control/plan/model/tree.h"

namespace tally::control {

inline constexpr std::size_t kNoFileTree = SIZE_MAX;

// One way of a tree of the file: that of its sums, or that of its results where they go another
// way. Several size classes may share a tree.
struct FileTree {
  const plan::Parents* parents;
  plan::Shape shape;
  std::uint32_t least = plan::kWeightUnit;  // its smallest weight, which limits its copies
  std::size_t results = kNoFileTree;        // index of the way of its results, when that is another
  std::size_t sums = kNoFileTree;           // of the way of results: index of that of its sums
};

struct FileTrees {
  std::vector<FileTree> trees;                     // ways of results come last
  std::vector<std::vector<std::size_t>> by_class;  // by class: the index in `trees` of each of its
                                                   // trees
};

// The result points into the plan. Precondition: that of MachinePlan.
FileTrees trees_of(const MachinePlan& plan);

// Whether the machine has a vertex of its own: it sums, or hands results on. All do except workers
// that are leaves.
bool sums(const plan::Shape& shape, plan::VertexId id);
// How many trees of the file have a vertex at the machine.
std::uint32_t trees_at(const FileTrees& found, plan::VertexId id);

// The member with the machine's name; nullptr when there is none.
const std::pair<const NodeId, Member>* member_of(const MachinePlan& plan, const Members& members,
                                                 plan::VertexId machine);
// Precondition: lost NICs are marked.
bool has_lost_rails(const Member& member);

}  // namespace tally::control
