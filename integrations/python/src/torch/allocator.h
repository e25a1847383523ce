// torch's CPU allocators that take memory from the SharedPool. So the node reads and writes tensors
// in place, including the gradient buckets that DistributedDataParallel makes later.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <memory>

namespace tally::python {

// Blocks of at least this size come from the pool. Smaller blocks come from torch's own allocator.
// So do blocks for which the pool has no memory.
inline constexpr std::size_t kSharedFrom = std::size_t{1} << 20;

// Makes torch allocate CPU memory like that, from the next allocation on. Any thread may call it,
// any number of times.
void install_allocator();

// Takes blocks of any size from the pool; each takes whole pages.
const std::shared_ptr<c10::Allocator>& shared_allocator();

}  // namespace tally::python
