// The closed form of star_planner.h, for a network that is given with its switch and links.
#pragma once

#include <optional>
#include <vector>

#include "control/plan/packing/generation.h"
#include "control/plan/packing/places/problem.h"

namespace tally::plan {

// Returns stars with the best shares and the prices that prove it, when all machines are joined to
// one switch and are as fast in as out, and none sums slowly. Otherwise nullopt.
std::optional<Generated> full_bisection(const Problem& problem);

}  // namespace tally::plan
