// Counts what a thread must not do while it sums a tile: allocate, lock, and call the kernel. A
// program that links this has its own malloc and pthread_mutex_lock, which count and then call the
// C library's. A seccomp filter of the thread traps system calls; the trap handler counts and makes
// them.
#pragma once

#include <cstdint>
#include <map>

namespace tally::testing {

struct ThreadCounts {
  std::uint64_t allocations = 0;  // allocations and releases
  std::uint64_t locks = 0;
  std::map<int, std::uint64_t> system_calls;  // by number
};

// Prepares the calling thread for the rest of its life. Returns false when this kernel has no
// seccomp filters.
bool watch_this_thread();

// Starts counting for the calling thread. Precondition: watch_this_thread() has returned true on
// it.
void start_counting();
// Stops counting; returns the counts since start_counting().
ThreadCounts stop_counting();

}  // namespace tally::testing
