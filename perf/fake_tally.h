// libtally in one process, for tests of what is built on it: ranks are threads, the node is the
// last of them to post. With faults on request.
#pragma once

#include <cstdint>

namespace tally::perf::fake {

struct Faults {
  std::uint32_t rank = 0;                  // who suffers
  std::uint64_t flip_after = UINT64_MAX;   // operations with data that go well; then a bit flips
  std::uint64_t stray_after = UINT64_MAX;  // ... then the byte behind the result changes
  std::uint64_t input_after = UINT64_MAX;  // ... then a byte of the input changes
  std::uint64_t fail_after = UINT64_MAX;   // ... then all ranks get TALLY_PEER_LOST
  bool wrong_stats = false;
  std::uint32_t credit = 256;
};

// Forgets everything of earlier tests. Not while sessions are open.
void reset(const Faults& faults = {});

}  // namespace tally::perf::fake
