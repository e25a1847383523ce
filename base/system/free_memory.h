// Estimates how much memory a process can take before the kernel kills a process to free memory.
#pragma once

#include <cstdint>
#include <string>

namespace tally {

struct FreeMemory {
  std::uint64_t bytes = UINT64_MAX;
  std::string where;  // the limit that decides: "this machine (MemAvailable)", "cgroup /a/b
                      // (memory.max 1073741824)"
};

// Returns the smaller of two values: the machine's available memory, and what the tightest cgroup
// (version 1 or 2) at or above this process still allows. File caches count as free, and swap does
// not. Reads a few kernel files, which takes about 50 us. The folders are arguments for tests.
FreeMemory free_memory(const std::string& proc = "/proc",
                       const std::string& cgroups = "/sys/fs/cgroup");

}  // namespace tally
