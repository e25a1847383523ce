// Memory of this process that a node can map: blocks in sealed memfds. The pool keeps freed blocks
// and reuses them, because fresh mappings cost a third of a training step.
//
// A forked child gets a private copy at the same addresses, as it does of ordinary memory. There is
// one difference: a page that neither process has written since the fork may show later writes of
// the parent.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "base/result.h"
#include "dataplane/transport/shm/memory.h"

namespace tally::python {

class SharedPool {
 public:
  static constexpr std::size_t kBlockAlignment = 4096;
  // Blocks up to this size share a segment of this size. A larger block has a segment of its own.
  static constexpr std::size_t kSegmentBytes = std::size_t{64} << 20;

  // A memfd and its mapping. Segments stay until the process ends.
  struct Segment {
    std::byte* data;
    std::size_t bytes;
    int fd;
  };
  struct Usage {
    std::size_t segments;
    std::size_t bytes;       // bytes of all segments
    std::size_t free_bytes;  // the part of `bytes` that is not allocated
  };

  // Returns the process's pool. It is never destroyed, because its blocks may outlive every other
  // object.
  static SharedPool& instance();
  // Makes this module use `pool`, the pool of the extension module that was loaded first. Each
  // extension module has its own copy of this code. Must happen before the first call of
  // instance().
  static void use(SharedPool& pool);

  // Returns a page-aligned block, or an error that says why there is no memory. Any thread may call
  // it.
  Result<void*> allocate(std::size_t bytes);
  // Returns false when the address is not a block of the pool.
  bool free(void* block);
  std::optional<Segment> find(const void* address) const;
  Usage usage() const;

 private:
  struct Memory {
    transport::shm::SharedMemory shared;
    std::map<std::size_t, std::size_t> holes;   // free ranges: offset, bytes; never adjacent
    std::map<std::size_t, std::size_t> blocks;  // allocated blocks: offset, bytes
  };

  static void after_fork_in_child();
  static void* take(Memory& memory, std::size_t bytes);
  const Memory* owner(const void* address) const;

  static SharedPool* given;
  mutable std::mutex mutex_;
  std::map<const std::byte*, Memory> segments_;  // key: address
};

}  // namespace tally::python
