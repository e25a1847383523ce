// The closed form of star_planner.h, for a network that is given with its switches and links.
#pragma once

#include <optional>
#include <vector>

#include "control/plan/packing/generation.h"
#include "control/plan/packing/places/problem.h"

namespace tally::plan {

// Returns stars with the best shares and the prices that prove it, when each machine is joined to
// one switch and is as fast in as out, none sums slowly, and the links between switches carry the
// stars as fast as the NICs do. Otherwise nullopt.
std::optional<Generated> full_bisection(const Problem& problem);

}  // namespace tally::plan
