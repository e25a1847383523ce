// A packing of few trees: where a plan may not have as many as the best shares need.
#pragma once

#include <cstddef>

#include "control/plan/packing/generation.h"
#include "control/plan/packing/selection.h"

namespace tally::plan {

// Returns `count` trees with the best shares for them. Each tree is the cheapest one at prices that
// grow with how busy the trees before it keep the rows (multiplicative weights, as in Garg and
// Koenemann, "Faster and simpler algorithms for multicommodity flow and other fractional packing
// problems", 1998). seconds: per byte, that the best packing of any number of trees needs. Errors:
// those of `pricing` and of lp::ColumnProgram.
Result<Selection> few_trees(const Problem& problem, Pricing& pricing, std::size_t count,
                            double seconds, bool use_lp);

}  // namespace tally::plan
