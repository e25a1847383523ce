// Explains the counters of RDMA ports that indicate problems.
#pragma once

#include <string_view>

#include "control/cli/doctor/finding.h"

namespace tally::control::doctor {

struct CounterMeaning {
  std::string_view name;  // file name in hw_counters/ or counters/
  Level level;            // level of the finding when the counter is not zero
  std::string_view meaning;
  std::string_view remedy;  // "{}" is replaced by the interface
};

// Returns null for a counter that indicates no problem or that this table does not have.
const CounterMeaning* find_counter(std::string_view name);

}  // namespace tally::control::doctor
