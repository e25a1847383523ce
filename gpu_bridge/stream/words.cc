#include "gpu_bridge/stream/words.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <new>

namespace tally::gpu {

Result<std::unique_ptr<WordPool>> WordPool::make(const cuda::Driver& driver, cuda::Context context,
                                                 std::uint32_t operations) {
  const std::size_t bytes = (operations + std::size_t{1}) * sizeof(OperationWords);
  void* const address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (address == MAP_FAILED) {
    return Error{Status::kNoMemory,
                 std::string("memory for the words of operations: ") + std::strerror(errno)};
  }
  std::unique_ptr<WordPool> pool(new WordPool(driver, context));
  pool->memory_ = Mapping(address, bytes);
  // After a fork a child's pages are copies, and the device must keep the parent's.
  ::madvise(address, bytes, MADV_DONTFORK);
  pool->words_ = new (address) OperationWords[operations + std::size_t{1}];
  pool->probe_ = &pool->words_[operations].landed;
  auto pinned = PinnedMemory::pin(driver, context, {pool->memory_.data(), bytes});
  if (!pinned) return pinned.error();
  pool->pinned_ = std::move(pinned).value();
  return pool;
}

bool WordPool::device_writes(cuda::Stream stream) const {
  const cuda::CurrentContext current(driver_, context_);
  return driver_.stream_write_value32(stream, device_address(*probe_), 0,
                                      cuda::kWriteValueDefault) == cuda::Code::kSuccess;
}

}  // namespace tally::gpu
