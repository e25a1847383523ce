// Stragglers: workers whose gradients are ready later than others'.
#pragma once

#include <cstdint>
#include <span>

#include "control/sim/core/run.h"

namespace tally::simulator {

// Returns the ready times of all machines. A worker's delay has the exponential distribution with
// this mean; 0: all are ready at once. The same seed gives the same times on every machine, because
// no function of the mathematical library is used (von Neumann 1951: comparisons of uniform numbers
// alone).
ReadyTimes ready_times(std::size_t machines, std::span<const plan::VertexId> workers,
                       double mean_seconds, std::uint64_t seed);

}  // namespace tally::simulator
