// The driver's description of memory of a device, and access of network adapters to it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "base/system/fd.h"
#include "gpu_bridge/cuda_api/driver.h"

namespace tally::gpu {

struct DeviceMemory {
  cuda::Pointer data = 0;
  std::size_t bytes = 0;
  cuda::Context context = nullptr;
  cuda::Device device = 0;
};

// kInvalidArgument: the range is not memory of a device, does not lie in one allocation, or belongs
// to no context.
Result<DeviceMemory> describe(const cuda::Driver& driver, cuda::Pointer data, std::size_t bytes);

// Memory of a device as a dma-buf, in which `data` lies at `offset`.
struct DmaBuf {
  UniqueFd fd;
  std::uint64_t offset = 0;
};

// kUnsupported: this device or driver makes no dma-bufs.
Result<DmaBuf> export_dmabuf(const cuda::Driver& driver, const DeviceMemory& memory);

// Whether the device's own work sees what an adapter has written only after
// flush_adapter_writes().
bool needs_flush(const cuda::Driver& driver, cuda::Device device);
Outcome flush_adapter_writes(const cuda::Driver& driver, cuda::Context context);

}  // namespace tally::gpu
