// The result of star_layout() as a plan of machines, so that an operator can see it, change it and
// set it.
#pragma once

#include <cstdint>

#include "control/coordinator/layout/layout.h"

namespace tally::control {

// When no member is a worker, the coordinator does not know where the workers are. Then the plan
// has one machine, "workers", which is as fast as the helpers together. An unknown speed counts as
// the mean of the known ones, or as 1 GB/s when none is known. The plan has epoch 0. Precondition:
// that of star_layout().
plan::Plan closed_form_plan(const Members& members);

}  // namespace tally::control
