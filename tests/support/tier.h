// How much of its work a test does. docs/testing.md says which command sets the tier.
#pragma once

#include <cstdlib>
#include <string>

namespace tally::testing {

// "fast", "default" or "soak".
inline std::string test_tier() {
  const char* tier = std::getenv("TALLY_TEST_TIER");
  return tier != nullptr ? tier : "default";
}

// Whether this build has a sanitizer. A sanitizer's allocator ends the process when memory runs
// out, and its checks of objects need descriptors.
inline bool is_sanitized() {
  const char* sanitizer = std::getenv("TALLY_SANITIZER");
  return sanitizer != nullptr && *sanitizer != '\0';
}

// How many times as long a test waits for what it expects, in a build with a sanitizer.
inline int sanitizer_factor() {
  return is_sanitized() ? 4 : 1;
}

}  // namespace tally::testing
