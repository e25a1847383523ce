// The counters of RDMA ports that tell of trouble, in words.
#pragma once

#include <string_view>

#include "control/doctor/finding.h"

namespace tally::control::doctor {

struct CounterMeaning {
  std::string_view name;  // of the file in hw_counters/ or counters/
  Level level;            // when it is not zero
  std::string_view meaning;
  std::string_view remedy;  // "{}" stands for the interface
};

// Null: one that tells of no trouble, or that is not known here.
const CounterMeaning* find_counter(std::string_view name);

}  // namespace tally::control::doctor
