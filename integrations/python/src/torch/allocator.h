// torch's CPU allocator, with big blocks out of the SharedPool: gradient buckets then lie where the
// node reads and writes them in place, also those that DistributedDataParallel makes later.
#pragma once

#include <cstddef>

namespace tally::python {

// Blocks from here on come from the pool; smaller ones, and all that the pool has no memory for,
// from the allocator that was there before.
inline constexpr std::size_t kSharedFrom = std::size_t{1} << 20;

// From the next allocation on. Any number of times, any thread.
void install_allocator();

}  // namespace tally::python
