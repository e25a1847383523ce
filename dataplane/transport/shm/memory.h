// Memory that two processes share: a memfd that can no longer shrink, so that what was mapped once
// cannot be cut off under the reader.
#pragma once

#include <cstddef>

#include "base/fd.h"
#include "base/result.h"

namespace tally::transport::shm {

struct SharedMemory {
  UniqueFd fd;
  Mapping mapping;
};

// Makes one of `bytes` (rounded up to pages), zeroed, populated and sealed against shrinking,
// growing and unsealing. Huge pages where the kernel gives them to shared memory.
Result<SharedMemory> make_shared(const char* name, std::size_t bytes);

// Maps a peer's memfd after checking what a peer may lie about: that it is a memfd, sealed against
// shrinking (and unsealing), and at least `bytes` long. `what` names it in the message.
Result<Mapping> map_peer(int fd, std::size_t bytes, const char* what);

std::size_t round_to_pages(std::size_t bytes);

}  // namespace tally::transport::shm
