// The time-outs of a node, for its log.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "base/log/log.h"
#include "base/timeouts/fault_timeouts.h"

namespace tally::control {

template <std::size_t... I>
void log_timeouts(const FaultTimeouts& timeouts, std::index_sequence<I...>) {
  const auto shown = timeouts.shown();
  log::info("fault-timeouts", {log::Field(shown[I].name, shown[I].ms)...});
}

inline void log_timeouts(const FaultTimeouts& timeouts) {
  constexpr std::size_t kCount = FaultTimeouts{}.shown().size();
  log_timeouts(timeouts, std::make_index_sequence<kCount>());
}

}  // namespace tally::control
