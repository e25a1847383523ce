// What star_layout() does, as a plan of machines: for those who want to see it, change it and set
// it.
#pragma once

#include <cstdint>

#include "control/coordinator/layout.h"

namespace tally::control {

// Where no member is a worker, nobody knows where the workers are: all stand as one machine,
// "workers", that is as fast as the helpers together. Speeds that are unknown are the mean of the
// known ones; where none is known, 1 GB/s. Epoch 0. Precondition: as star_layout().
plan::Plan closed_form_plan(const Members& members);

}  // namespace tally::control
