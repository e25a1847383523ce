// How much of itself a test runs: docs/testing.md says who sets it.
#pragma once

#include <cstdlib>
#include <string>

namespace tally::testing {

// "fast", "default" or "soak".
inline std::string test_tier() {
  const char* tier = std::getenv("TALLY_TEST_TIER");
  return tier != nullptr ? tier : "default";
}

}  // namespace tally::testing
