// How much of itself a test runs: docs/testing.md says who sets it.
#pragma once

#include <cstdlib>
#include <string_view>

namespace tally::testing {

inline bool is_tier(std::string_view name) {
  const char* tier = std::getenv("TALLY_TEST_TIER");
  return tier != nullptr && tier == name;
}

}  // namespace tally::testing
