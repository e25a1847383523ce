// The tree of each operation that the plan knows and that is not divided.
#pragma once

#include <vector>

#include "control/plan/model/plan.h"
#include "dataplane/partition/partition.h"

namespace tally::control {

// One home for each tensor that is not divided, by ascending tag. The function assigns the largest
// tensor first, each to the tree of its class that would finish it first (plan::assign). When a
// class has the trees and weights of the last class, the bytes of divided operations count too. So
// small operations even out the differences that cuts in whole blocks leave. Precondition: tags
// ascend.
std::vector<protocol::Home> known_homes(const protocol::Partition& plan,
                                        const std::vector<plan::Tensor>& tensors);

}  // namespace tally::control
