// For tests: libtally in one process. The ranks are threads, and the last rank that posts does the
// work of the node. Tests can ask for faults.
#pragma once

#include <cstdint>

namespace tally::perf::fake {

struct Faults {
  std::uint32_t rank = 0;                  // the rank that gets the fault
  std::uint64_t flip_after = UINT64_MAX;   // so many operations with data succeed; then a bit of
                                           // the result flips
  std::uint64_t stray_after = UINT64_MAX;  // likewise; then the byte behind the result changes
  std::uint64_t input_after = UINT64_MAX;  // likewise; then a byte of the input changes
  std::uint64_t fail_after = UINT64_MAX;   // likewise; then all ranks get TALLY_PEER_LOST
  bool wrong_stats = false;
  std::uint32_t credit = 256;
};

// Removes all state of earlier tests. Precondition: no session is open.
void reset(const Faults& faults = {});

}  // namespace tally::perf::fake
