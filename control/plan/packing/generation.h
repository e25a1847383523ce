// Column generation: mixes the trees at hand, prices the rows, adds a tree that is cheap at these
// prices, and repeats until no tree could make the plan much faster (Gilmore and Gomory, "A linear
// programming approach to the cutting-stock problem", 1961, for packings of trees).
#pragma once

#include <set>
#include <vector>

#include "base/result.h"
#include "control/plan/packing/master.h"
#include "control/plan/packing/places/problem.h"
#include "control/plan/packing/trees/pricing.h"
#include "control/plan/packing/trees/rooting.h"

namespace tally::plan {

struct Generated {
  std::vector<Tree> trees;  // weights are 0
  std::vector<Use> uses;    // by tree
  std::vector<double> shares;
  double tau = 0;  // seconds per byte
  // No plan is faster than this, and these prices of passages show it. 0 and empty if nothing was
  // shown.
  double lower_bound = 0;
  std::vector<double> prices;
  bool is_exact = true;  // every price was
  int rounds = 0;
};

struct GenerationLimits {
  double gap = 1e-3;                      // between tau and lower_bound, relative to tau
  double lower_bound = 0;                 // known before
  std::uint32_t max_height = kAnyHeight;  // higher trees are left out
  int rounds = 2000;
};

// `first`: trees to begin with, with routes for all edges; may be empty. With Clp (use_lp) the
// shares are optimal for the trees found, and without it nearly (master.h). Errors: those of
// `pricing`, and those of lp::ColumnProgram.
Result<Generated> generate(const Problem& problem, Pricing& pricing, std::vector<Tree> first,
                           const GenerationLimits& limits, bool use_lp);

}  // namespace tally::plan
