// Divides the children of a machine over other machines of its kind.
#pragma once

#include <cstdint>

#include "control/plan/model/plan.h"
#include "control/plan/packing/places/symmetry.h"

namespace tally::plan {

// Where a machine has more than `most` children that can change places with it but are in other
// racks, these children become a tree of the smallest fan-out that keeps the whole tree within
// max_height levels. Averaged over places, such a tree uses each passage as before. But at certain
// places it asks less of single machines, so a few trees suffice to divide the bytes evenly.
void divide_fan_out(Parents& parents, const Symmetry& symmetry, std::size_t most,
                    std::uint32_t max_height);

}  // namespace tally::plan
