#include "control/sim/core/ready_times.h"

#include <random>

namespace tally::simulator {
namespace {

double uniform(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11) * 0x1p-53;
}

// Takes uniform numbers while they fall. A run of odd length gives its first number, behind the
// number of runs that were refused.
double exponential(std::mt19937_64& random) {
  for (double refused = 0;; ++refused) {
    const double first = uniform(random);
    double last = first;
    bool odd = true;
    for (double next = uniform(random); next < last; next = uniform(random)) {
      last = next;
      odd = !odd;
    }
    if (odd) return refused + first;
  }
}

}  // namespace

ReadyTimes ready_times(std::size_t machines, std::span<const plan::VertexId> workers,
                       double mean_seconds, std::uint64_t seed) {
  ReadyTimes times(machines, 0);
  if (mean_seconds == 0) return times;
  std::mt19937_64 random(seed);
  for (const plan::VertexId worker : workers) times[worker] = mean_seconds * exponential(random);
  return times;
}

}  // namespace tally::simulator
