// Where operations that a planner knows of go, if they go whole.
#pragma once

#include <vector>

#include "control/plan/plan.h"
#include "dataplane/protocol/cut.h"

namespace tally::control {

// One for each tensor that goes whole, by rising tag: the largest first, each to the tree of its
// class that would have ended first with it (plan::assign). Where a class has the trees and weights
// of the last one, what trees have of divided operations counts, too, and small ones even out what
// cuts in whole blocks have left uneven. Precondition: tags rise.
std::vector<protocol::Home> known_homes(const protocol::Plan& plan,
                                        const std::vector<plan::Tensor>& tensors);

}  // namespace tally::control
