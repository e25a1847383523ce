// The least time of a reduce-scatter or an all-gather on a network, from its cuts (bound.h).
#pragma once

#include <span>

#include "base/result.h"
#include "control/plan/model/network.h"

namespace tally::plan::forestcoll {

struct WaySeconds {
  double up = 0;    // of a reduce-scatter, in seconds per byte of all workers together
  double down = 0;  // of an all-gather
};

// Returns times that no schedule can beat in which each worker begins or ends with an equal part,
// whatever helpers and switches do. Links and NICs count, and sums do not. Capacities are rounded
// up to whole units, of which the slowest link or NIC has 2^16 where all fit: that makes the times
// at most 0.002% too small.
//
// An error says what to change: fewer than 2 workers or more than kMostWorkers, more than
// kMostVertices vertices, a worker that another one does not reach. Preconditions: the network has
// passed validate(); `workers` is ascending, and they are machines of it.
Result<WaySeconds> least_seconds(const Network& network, std::span<const VertexId> workers);

}  // namespace tally::plan::forestcoll
