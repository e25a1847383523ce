// The least time of an all-gather, from the cuts of the network (ForestColl, arXiv 2402.06787,
// section 4: optimality).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "control/plan/forestcoll/max_flow.h"

namespace tally::plan::forestcoll {

struct Fraction {
  std::int64_t over = 0;
  std::int64_t under = 1;  // above 0, and without a common divisor

  double value() const { return static_cast<double>(over) / static_cast<double>(under); }
  bool operator==(const Fraction&) const = default;
};

// Returns the largest (workers in S) / (capacity out of S) over all sets S of vertices that leave
// out a worker. The workers are the first vertices. A worker that has 1/N of the bytes sends them
// to all N workers in (1/N) times this value, per byte and per unit of capacity, and no all-gather
// is faster. Returns nothing when a worker does not reach another one.
//
// The paper halves an interval and then finds the only fraction in it. Here each step is a cut, and
// the cut that the next flow finds is a larger fraction, until none is (Newton's method on
// fractions, Dinkelbach 1967). That is exact as well, and takes a few steps of N flows instead of
// some twenty. Preconditions: at least 2 workers; N times the sum of all capacities fits 2^59.
std::optional<Fraction> least_time(const Capacities& capacities, std::size_t workers);

}  // namespace tally::plan::forestcoll
