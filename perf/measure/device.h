// The CUDA device of a rank for --memory cuda: buffers on the device, each with a mirror in host
// memory where gradients are made and results are verified.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "gpu_bridge/cuda_api/driver.h"
#include "gpu_bridge/memory/pinned_memory.h"
#include "gpu_bridge/stream/handles.h"

namespace tally::perf {

// Only the thread that opened it may use it.
class Device {
 public:
  // Ranks take the devices of a machine in turns.
  static Result<std::unique_ptr<Device>> open(std::uint32_t rank);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const cuda::Driver& driver() const { return driver_; }
  cuda::Context context() const { return context_; }
  cuda::Stream stream() const { return stream_.get(); }
  // The memory lives as long as the device.
  Result<cuda::Pointer> allocate(std::uint64_t bytes);
  // Copy between a buffer and its mirror, and return when the bytes are there.
  Outcome upload(cuda::Pointer to, const std::byte* from, std::uint64_t bytes) const;
  Outcome download(std::byte* to, cuda::Pointer from, std::uint64_t bytes) const;

 private:
  Device(const cuda::Driver& driver, cuda::Device device) : driver_(driver), device_(device) {}

  const cuda::Driver& driver_;
  cuda::Device device_;
  cuda::Context context_ = nullptr;
  gpu::OwnedStream stream_;
  std::vector<cuda::Pointer> allocations_;
};

}  // namespace tally::perf
