// When the messages of a tile are due, for links that serve the oldest message first.
//
// If all messages of a tile were as old as the tile, results would hold up sums of younger tiles,
// and links would be idle in the end, when only results are left. So a message is due when its tile
// would be there if it had begun in its turn, and were alone in the network. Results for leaves are
// due later: nothing waits for them.
#pragma once

#include <cstdint>
#include <vector>

#include "control/plan/model/network.h"
#include "control/sim/core/flat_tree.h"

namespace tally::simulator {

class DueTimes {
 public:
  // tile_bytes: of a whole tile. seconds_between: from the turn of a tile to that of the next one,
  // of any tree; above 0. O(machines).
  DueTimes(const FlatTree& tree, const plan::Network& network, double tile_bytes,
           double seconds_between);

  // After how many further tiles the machine's sum is due at its parent, and the result at the
  // child.
  std::uint32_t sum_of(plan::VertexId machine) const { return sums_[machine]; }
  std::uint32_t result_for(plan::VertexId child) const { return results_[child]; }

 private:
  std::vector<std::uint32_t> sums_;  // by machine
  std::vector<std::uint32_t> results_;
};

}  // namespace tally::simulator
