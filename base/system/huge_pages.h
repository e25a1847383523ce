// Memory that can use pages of 2 MiB. Larger pages need fewer entries in the page tables of
// processors and adapters.
#pragma once

#include <cstddef>

#include "base/system/fd.h"

namespace tally {

inline constexpr std::size_t kHugePage = 2 << 20;

// Calls mmap with these flags and makes the memory readable and writable. The address is a multiple
// of kHugePage when `bytes` is at least kHugePage. Returns an empty Mapping and sets errno on
// failure.
Mapping map_aligned(std::size_t bytes, int flags, int fd);

// Maps at least `bytes` of zeroed memory that is private to this process. With `reserved`, the
// pages come from the pool of vm.nr_hugepages and are all faulted in; the Mapping is empty when the
// pool has too few pages. Without `reserved`, the pages are ordinary, and the kernel may use large
// ones (transparent_hugepage).
Mapping map_own(std::size_t bytes, bool reserved);

}  // namespace tally
