// From the trees of a packing to those of a plan: flat ones, and no more than nodes serve.
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "control/plan/packing/generation.h"

namespace tally::plan {

struct Selection {
  std::vector<Tree> trees;
  std::vector<double> shares;
  double seconds = 0;  // per byte, of the busiest row; 0 if no tree was left out
};

// Returns the best shares of trees with these uses (without Clp: nearly). unit: seconds per byte
// near those of good plans. Errors: those of lp::ColumnProgram.
Result<Mixture> mix(const Problem& problem, const std::vector<Use>& uses, double unit, bool use_lp);

// Of all shares of the generated trees that need at most `seconds` per byte, returns those with the
// least mean cost. costs: by tree. time_cost: what a plan that needs all of `seconds` costs in
// addition; faster plans cost less in proportion. Errors: those of lp::ColumnProgram, which it
// uses.
Result<std::vector<double>> cheapest_shares(const Problem& problem, const Generated& generated,
                                            double seconds, const std::vector<double>& costs,
                                            double time_cost);

// Returns shares, by tree, of as few trees as possible that need at most `seconds` per byte: the
// trees of least cost, as many as it takes. Needs no library.
Result<std::vector<double>> shares_of_cheapest(const Problem& problem, const Generated& generated,
                                               double seconds, const std::vector<double>& costs);

// Of all shares of the generated trees that take at most (1 + slack) x tau, chooses those with the
// fewest levels, as a mean over the bytes, if 1% of the time is worth less than 0.1 levels. Without
// Clp (use_lp) the shares stay. Then it keeps the `most` largest shares and mixes these trees anew.
// Errors: those of lp::ColumnProgram.
Result<Selection> select_trees(const Problem& problem, const Generated& generated, double slack,
                               std::size_t most, bool use_lp);

}  // namespace tally::plan
