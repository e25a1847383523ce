// Packs spanning trees into a network of workers alone (ForestColl, arXiv 2402.06787, section 5.3;
// the theorem is Edmonds', 1973, and the algorithm in batches is Berczi and Frank's, 2010).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "control/plan/forestcoll/max_flow.h"

namespace tally::plan::forestcoll {

// Equal trees out of one root.
struct Batch {
  std::uint32_t root = 0;
  std::int64_t trees = 0;
  std::vector<std::uint32_t> reached;  // workers in the order in which they came; the root first
  std::vector<std::int32_t> parents;   // by worker; -1: the root, or not reached
};

// Returns `trees` trees out of each vertex. Each tree spans all vertices, and all together use no
// link more often than its capacity. Trees are flat where capacities allow it. Precondition: a
// source that sends `trees` to each of the N vertices can send N * trees to any of them, and the
// sum of all capacities is below 2^59. An error (kInternal) says that this does not hold.
//
// There are at most as many batches as vertices and links. A batch takes O(N^2) flows.
Result<std::vector<Batch>> pack_trees(Capacities capacities, std::int64_t trees);

}  // namespace tally::plan::forestcoll
