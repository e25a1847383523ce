// Survives peers that take their memory away. Seals keep a memfd from shrinking, not from holes:
// the node's next touch makes the page anew, and where the kernel has none to give (a limit of the
// cgroup, a bad page) it raises SIGBUS. The handler then puts private zero pages in place of the
// whole mapping and says so in a word of the session's: the node goes on, what it read is void.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tally::transport::shm {

// Set once, to 1, by the handler on whichever thread met the fault.
using FaultWord = std::atomic<std::uint32_t>;

// Installs the handler, once per process and before the first guard. A fault outside of what is
// guarded ends the process as ever. Throws std::system_error.
void survive_memory_faults();

// Watches one mapping as long as it lives. Made and destroyed by any thread, while no other touches
// the mapping; moves freely.
class FaultGuard {
 public:
  FaultGuard() = default;
  // Both are borrowed. The mapping starts on a page.
  FaultGuard(std::span<std::byte> mapping, FaultWord& faulted);
  ~FaultGuard() { reset(); }
  FaultGuard(FaultGuard&& other) noexcept;
  FaultGuard& operator=(FaultGuard&& other) noexcept;

  void reset();

  struct Entry;  // of the table that the handler reads

 private:
  Entry* entry_ = nullptr;
};

}  // namespace tally::transport::shm
