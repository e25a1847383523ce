// Packs trees one by one, for plans that may not have as many trees as the best shares need.
#pragma once

#include <cstddef>

#include "control/plan/packing/generation.h"
#include "control/plan/packing/selection.h"

namespace tally::plan {

// Returns `count` trees, at least 1, with the best shares for them. Each tree is the cheapest one
// at prices that rise with the load of the trees before it (multiplicative weights, as in Garg and
// Koenemann, "Faster and simpler algorithms for multicommodity flow and other fractional packing
// problems", 1998). Trees may be equal or higher
// than the limit of `pricing`, and shares may be 0. seconds: per byte, of a good packing; it
// scales the prices. Errors: those of `pricing` and of lp::ColumnProgram.
Result<Selection> few_trees(const Problem& problem, Pricing& pricing, std::size_t count,
                            double seconds, bool use_lp);

}  // namespace tally::plan
