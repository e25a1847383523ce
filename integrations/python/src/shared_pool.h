// Memory of this process that a node can map: blocks out of sealed memfds. What is freed is kept
// and given out again: fresh mappings cost a third of a training step.
//
// A child of a fork gets a private copy at the same addresses, as of ordinary memory, except that
// pages which neither has written since may show what the parent writes later.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "dataplane/transport/shm/memory.h"

namespace tally::python {

class SharedPool {
 public:
  static constexpr std::size_t kBlockAlignment = 4096;
  // Smaller blocks share a segment of this size; a larger one has a segment of its own.
  static constexpr std::size_t kSegmentBytes = std::size_t{64} << 20;

  // The memfd that an address lies in. Segments stay for as long as the process.
  struct Segment {
    std::byte* data;
    std::size_t bytes;
    int fd;
  };
  struct Usage {
    std::size_t segments;
    std::size_t bytes;       // of all segments
    std::size_t free_bytes;  // of them, not given out
  };

  // The process's own. Never destroyed: what was allocated from it may outlive everything.
  static SharedPool& instance();
  // Each extension module has this code of its own; this makes it use the pool of the one that was
  // loaded first. Before instance() is called.
  static void use(SharedPool& pool);

  // Page-aligned; nullptr when there is no memory. Any thread.
  void* allocate(std::size_t bytes);
  // False when the address is not a block of the pool.
  bool free(void* block);
  std::optional<Segment> find(const void* address) const;
  Usage usage() const;

 private:
  struct Memory {
    transport::shm::SharedMemory shared;
    std::map<std::size_t, std::size_t> holes;   // free: offset, bytes; never two side by side
    std::map<std::size_t, std::size_t> blocks;  // given out
  };

  static void after_fork_in_child();
  static void* take(Memory& memory, std::size_t bytes);
  const Memory* owner(const void* address) const;

  static SharedPool* given;
  mutable std::mutex mutex_;
  std::map<const std::byte*, Memory> segments_;  // by address
};

}  // namespace tally::python
