// Words in pinned host memory that hold the progress of an operation, for a device and the host.
// The device writes and awaits them in stream order, without the host.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/system/fd.h"
#include "gpu_bridge/cuda_api/driver.h"
#include "gpu_bridge/memory/pinned_memory.h"

namespace tally::gpu {

// Of one operation. Each word has one writer at a time, and a cache line of its own, because the
// host polls some while the device writes others. All are 0 between two operations.
struct OperationWords {
  // How many parts of the input have reached host memory. The device writes and awaits it; the host
  // puts it back to 0.
  alignas(64) std::uint32_t down = 0;
  // 1: all parts of the result stand in the device's memory. The device writes 1, the host 0.
  alignas(64) std::uint32_t landed = 0;
  // How many parts of the result stand in host memory. The host writes it; the device puts it back
  // to 0 behind its last wait.
  alignas(64) std::uint32_t up = 0;
};

inline std::uint32_t load(const std::uint32_t& word) {
  return std::atomic_ref(const_cast<std::uint32_t&>(word)).load(std::memory_order_acquire);
}
inline void store(std::uint32_t& word, std::uint32_t value) {
  std::atomic_ref(word).store(value, std::memory_order_release);
}

// The words of a number of operations, in one piece of pinned memory.
class WordPool {
 public:
  static Result<std::unique_ptr<WordPool>> make(const cuda::Driver& driver, cuda::Context context,
                                                std::uint32_t operations);

  // Whether the device itself writes and awaits such words in the order of a stream. Enqueues a
  // write to a word that no operation has.
  bool device_writes(cuda::Stream stream) const;

  OperationWords& operator[](std::uint32_t index) const { return words_[index]; }
  cuda::Pointer device_address(const std::uint32_t& word) const {
    return pinned_.device_address(reinterpret_cast<const std::byte*>(&word));
  }

 private:
  WordPool(const cuda::Driver& driver, cuda::Context context)
      : driver_(driver), context_(context) {}

  const cuda::Driver& driver_;
  cuda::Context context_;
  Mapping memory_;
  PinnedMemory pinned_;  // of memory_
  OperationWords* words_ = nullptr;
  std::uint32_t* probe_ = nullptr;  // of no operation
};

}  // namespace tally::gpu
