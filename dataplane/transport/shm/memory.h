// Memory that two processes share: a memfd that is sealed against shrinking, so that a mapping of
// it always reaches as far as the reader has checked.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "base/system/fd.h"

namespace tally::transport::shm {

struct SharedMemory {
  UniqueFd fd;
  Mapping mapping;
};

// Makes shared memory of that many bytes, rounded up to pages. It is zeroed, populated and sealed
// against shrinking, growing and further seals. It has huge pages where the kernel gives them to
// shared memory. name appears in /proc. Fails with kNoMemory when the machine or a cgroup does not
// have as much free memory, so that the kernel need not kill a process; kInvalidArgument when bytes
// is 0 or more than any machine has.
Result<SharedMemory> make_shared(const char* name, std::size_t bytes);

// Maps the first bytes of a peer's memfd. First it checks the peer's claims: the descriptor is a
// memfd of ordinary pages, is sealed against shrinking and against further seals, is at least that
// long, and is fully populated. fd is borrowed for the call. what names the memory in the error
// message.
Result<Mapping> map_peer(int fd, std::size_t bytes, const char* what);

// Fills the page tables of memory from map_peer(), or of a part of it, so that the first tile need
// not. The memory itself exists already. Takes about a second for a few GiB.
void populate(std::span<std::byte> memory);
// Empties these page tables again; the bytes stay in the memfd. Takes as long as populate(); then
// unmapping is quick.
void depopulate(std::span<std::byte> memory);

std::size_t round_to_pages(std::size_t bytes);

}  // namespace tally::transport::shm
