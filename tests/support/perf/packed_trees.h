// Networks of racks, and packings of trees for them, for tests of the simulator. The packings are
// near the best, but nothing here proves it.
#pragma once

#include <cstdint>
#include <vector>

#include "control/plan/model/plan.h"

namespace tally::plan {

// Racks of workers and helpers with NICs of 1 GB/s below their switches. One more switch joins
// these by links of `parent_connection` GB/s each way. Machines go rack by rack, in each rack
// workers first.
Network racks(std::uint32_t count, std::uint32_t workers, std::uint32_t helpers,
              double parent_connection);

std::vector<VertexId> workers_of(const Network& network);

// Trees by multiplicative weights (Garg and Koenemann 1998) with minimum spanning trees as columns,
// and the shares of least tau among them by a linear program; of these the ones with the flattest
// trees. Empty when this build cannot solve linear programs. Preconditions: links have the same
// speed both ways, no machine has a speed of sums, and each machine has one link.
std::vector<Tree> packed_trees(const Network& network, std::uint32_t rounds);

// A plan with one domain and one size class of these trees.
Plan plan_of(const Network& network, std::vector<Tree> trees, std::uint64_t chunk,
             std::uint32_t window);

}  // namespace tally::plan
