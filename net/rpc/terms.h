// The terms of elected coordinators. Each message of such a coordinator has its term, and a later
// coordinator has a higher one. A coordinator that stood still while the next one was elected, and
// goes on, therefore has a lower term than its successor.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace tally::rpc {

// 0: the message has none.
std::uint64_t term_of(const nlohmann::json& message);

// The highest term of all messages that were accepted.
class HighestTerm {
 public:
  // Refuses a message with a lower term (kUnavailable). A message without a term counts as 0.
  Outcome accept(const nlohmann::json& message);
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

}  // namespace tally::rpc
