// Trees to begin a packing with: those of systems that are good on some networks.
#pragma once

#include <cstdint>
#include <vector>

#include "control/plan/model/plan.h"
#include "control/plan/packing/places/problem.h"

namespace tally::plan {

// Returns a star at a machine of each group, as parameter servers and BytePS have, and trees that
// sum at one machine of each switch first, as BlueConnect and PLink do. Trees without routes for
// all their edges are left out, so there may be none. Weights are 0.
std::vector<Tree> first_trees(const Problem& problem);

}  // namespace tally::plan
