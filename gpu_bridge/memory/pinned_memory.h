// Host memory that a device copies from and to at the full speed of the bus.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "gpu_bridge/cuda_api/driver.h"

namespace tally::gpu {

// Pins the caller's memory for the life of this object. The memory belongs to the caller, outlives
// the object, and keeps its pages: a device would go on with the old pages of memory that is mapped
// anew. One thread at a time.
class PinnedMemory {
 public:
  // kNoMemory: the process may not lock as much memory, or a device cannot map it.
  static Result<PinnedMemory> pin(const cuda::Driver& driver, cuda::Context context,
                                  std::span<std::byte> memory);

  PinnedMemory() = default;
  PinnedMemory(PinnedMemory&& other) noexcept { swap(other); }
  PinnedMemory& operator=(PinnedMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  // Precondition: no enqueued work uses the memory.
  ~PinnedMemory();

  // The device's address of a byte of the memory.
  cuda::Pointer device_address(const std::byte* byte) const {
    return device_begin_ + static_cast<cuda::Pointer>(byte - memory_.data());
  }

 private:
  void swap(PinnedMemory& other) noexcept;

  const cuda::Driver* driver_ = nullptr;
  cuda::Context context_ = nullptr;
  std::span<std::byte> memory_;
  cuda::Pointer device_begin_ = 0;
};

}  // namespace tally::gpu
