// Memory where pages of 2 MiB can be: fewer entries in the tables of processors and adapters.
#pragma once

#include <cstddef>

#include "base/fd.h"

namespace tally {

inline constexpr std::size_t kHugePage = 2 << 20;

// mmap, readable and writable, with these flags; at a multiple of kHugePage where it is at least
// that long. Empty, with errno set, when it fails.
Mapping map_aligned(std::size_t bytes, int flags, int fd);

// Of this process alone, zeroed, at least so many bytes. `reserved`: out of the pool of
// vm.nr_hugepages, all of it faulted in; empty where that has not enough. Else of ordinary pages,
// for which the kernel may take large ones (transparent_hugepage).
Mapping map_own(std::size_t bytes, bool reserved);

}  // namespace tally
