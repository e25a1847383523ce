// torch's CPU allocator, which takes large blocks from the SharedPool. So the node reads and writes
// gradient buckets in place, including those that DistributedDataParallel makes later.
#pragma once

#include <cstddef>

namespace tally::python {

// Blocks of at least this size come from the pool. Smaller blocks come from the previous allocator.
// So do blocks for which the pool has no memory.
inline constexpr std::size_t kSharedFrom = std::size_t{1} << 20;

// Takes effect from the next allocation on. Any thread may call it, any number of times.
void install_allocator();

}  // namespace tally::python
