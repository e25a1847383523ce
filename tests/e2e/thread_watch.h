// Counts what a thread must not do on the path of a tile: allocate, lock, call the kernel. Linking
// this into a program replaces malloc and pthread_mutex_lock by ones that count and go on to the
// C library's; system calls are trapped by a seccomp filter of the thread's own and made by the
// trap.
#pragma once

#include <cstdint>
#include <map>

namespace tally::testing {

struct ThreadCounts {
  std::uint64_t allocations = 0;  // and releases
  std::uint64_t locks = 0;
  std::map<int, std::uint64_t> system_calls;  // by number
};

// For the calling thread and the rest of its life. False: this kernel has no seccomp filters.
bool watch_this_thread();

// From here on the calling thread's doings are counted; it must be watched.
void start_counting();
// No longer: what was counted since start_counting().
ThreadCounts stop_counting();

}  // namespace tally::testing
