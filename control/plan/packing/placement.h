// From a packing that is even over all places that can change places to one of few certain trees.
#pragma once

#include <cstdint>

#include "control/plan/packing/generation.h"
#include "control/plan/packing/places/problem.h"

namespace tally::plan {

struct PlacementLimits {
  std::uint32_t max_height = kAnyHeight;
  double gap = 1e-3;  // to the lower bound of `even`, at which the search ends
};

// alike: the problem of `even`, with the network's symmetry or that of its shape. single: without
// symmetry. Precondition: no tree of `even` with a share is higher than max_height.
//
// Of the shares that are nearly as good, it takes those whose trees load no machine much, so that
// few trees divide the bytes evenly. It moves the trees to places with few bytes (images.h), and
// with Clp (use_lp) generates more by moving them to cheap places.
Result<Generated> place(const Problem& alike, const Problem& single, Generated even,
                        const PlacementLimits& limits, bool use_lp);

}  // namespace tally::plan
