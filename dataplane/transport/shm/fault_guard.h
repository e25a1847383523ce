// Keeps the node alive when a peer takes its shared memory away. Seals keep a memfd from shrinking,
// but not from getting holes. When the node touches a hole, the kernel makes a new page. When the
// kernel cannot give a page (a cgroup limit, a bad page), it raises SIGBUS. The handler then
// replaces the whole mapping by private zero pages and sets the session's FaultWord. The node goes
// on; the bytes that it read are void.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tally::transport::shm {

// 0, or 1 after a fault. The handler sets it on the thread that met the fault, before any thread
// can read the pages that replace the mapping.
using FaultWord = std::atomic<std::uint32_t>;

// Installs the handler for SIGBUS. The process calls it once, before the first guard. A fault
// outside of all guarded mappings ends the process, as without the handler. Throws
// std::system_error.
void survive_memory_faults();

// Guards one mapping as long as the guard lives. The owner makes the mapping before the guard and
// unmaps it after the guard. A guard can be moved.
//
// The guard relies on this rule to find the mapping of a fault: the mapping and its guard stay
// while a thread touches the mapping. The node keeps the rule in two ways. It releases a peer's
// memory only after every shard has processed the order to do so, and no shard does that in the
// middle of a tile. A shard also counts the views that it has given out (shm_transport.h).
//
// If the rule were broken, only the thread that faults would be in error: after the guard is gone,
// no handler replaces the next mapping at that address, and no handler sets its word.
class FaultGuard {
 public:
  FaultGuard() = default;
  // Borrows both for the life of the guard. Precondition: the mapping starts on a page boundary.
  FaultGuard(std::span<std::byte> mapping, FaultWord& faulted);
  ~FaultGuard() { reset(); }
  FaultGuard(FaultGuard&& other) noexcept;
  FaultGuard& operator=(FaultGuard&& other) noexcept;

  // Ends the guard. After its return no handler touches the mapping or the word. It waits for a
  // handler that is replacing the mapping. Does nothing when there is no guarded mapping.
  void reset();

  struct Entry;  // an entry of the table that the handler reads

 private:
  Entry* entry_ = nullptr;  // null when the guard guards no mapping
};

// For tests: the handler calls seen at these points. The function must be async-signal-safe. With
// null the handler calls nothing.
enum class FaultStep : std::uint8_t {
  kHeld,      // the handler has found the guard and has changed nothing yet
  kReplaced,  // the handler has replaced the mapping
};
void watch_faults(void (*seen)(FaultStep));

}  // namespace tally::transport::shm
