// Trees for one way, in which each worker is the root for its own part of the bytes: those of a
// reduce-scatter go up, and those of an all-gather go down.
//
// The shares follow from a linear program over trees at hand: each root's shares sum to 1, and the
// busiest passage is as little busy as possible. Its prices find cheaper trees, until there are
// none (column generation, as in packing/generation.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "control/plan/model/plan.h"
#include "control/plan/packing/places/problem.h"

namespace tally::plan {

struct OneWayLimits {
  bool up = true;          // the way of sums; else that of results
  double lower_bound = 0;  // known: seconds per byte of all roots together; above 0
  double gap = 1e-3;       // to it, at which the search ends, relative
  std::uint32_t max_height = 0;
  std::size_t max_trees = 0;  // of all roots together; at least one for each worker
};

struct WayShare {
  Parents parents;  // over the workers alone
  double share = 0;
};

// By worker, in the order of problem.workers(): its trees. Their shares sum to 1. Of the shares
// that take nearly the least time, the result has those with the fewest levels.
using OneWay = std::vector<std::vector<WayShare>>;

// Errors: no tree of at most max_height levels joins the workers; those of lp::ColumnProgram, so
// kUnsupported without Clp. Precondition: `problem` has no symmetry.
Result<OneWay> pack_one_way(const Problem& problem, const OneWayLimits& limits);

}  // namespace tally::plan
