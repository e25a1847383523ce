#include "gpu_bridge/memory/device_memory.h"

#include <fmt/format.h>

#include <algorithm>

namespace tally::gpu {
namespace {

using cuda::Code;
using cuda::Pointer;
using cuda::PointerAttribute;

constexpr std::uint64_t kDmaBufAlignment = 64 << 10;  // of addresses and sizes of dma-bufs

int attribute_of(const cuda::Driver& driver, cuda::Attribute attribute, cuda::Device device) {
  int value = 0;
  if (driver.device_get_attribute(&value, attribute, device) != Code::kSuccess) return 0;
  return value;
}

}  // namespace

Result<DeviceMemory> describe(const cuda::Driver& driver, Pointer data, std::size_t bytes) {
  DeviceMemory memory{data, bytes};
  const auto refuse = [&](const char* why) {
    return invalid(
        fmt::format("memory of {} bytes at {:#x} {}: give the address of memory of a "
                    "CUDA device",
                    bytes, data, why));
  };
  unsigned type = 0;
  if (driver.pointer_get_attribute(&type, PointerAttribute::kMemoryType, data) != Code::kSuccess ||
      type != cuda::kMemoryTypeDevice) {
    return refuse("is not known to CUDA as memory of a device");
  }
  Pointer begin = 0;
  std::size_t size = 0;
  if (driver.pointer_get_attribute(&begin, PointerAttribute::kRangeStart, data) != Code::kSuccess ||
      driver.pointer_get_attribute(&size, PointerAttribute::kRangeSize, data) != Code::kSuccess ||
      bytes > size - (data - begin)) {
    return refuse("does not lie in one allocation");
  }
  if (driver.pointer_get_attribute(&memory.context, PointerAttribute::kContext, data) !=
          Code::kSuccess ||
      memory.context == nullptr ||
      driver.pointer_get_attribute(&memory.device, PointerAttribute::kDeviceOrdinal, data) !=
          Code::kSuccess) {
    return refuse("belongs to no context");
  }
  return memory;
}

Result<DmaBuf> export_dmabuf(const cuda::Driver& driver, const DeviceMemory& memory) {
  if (attribute_of(driver, cuda::Attribute::kDmaBufSupported, memory.device) == 0) {
    return Error{Status::kUnsupported, "the device makes no dma-bufs"};
  }
  const Pointer begin = memory.data / kDmaBufAlignment * kDmaBufAlignment;
  const Pointer end =
      (memory.data + memory.bytes + kDmaBufAlignment - 1) / kDmaBufAlignment * kDmaBufAlignment;
  const cuda::CurrentContext current(driver, memory.context);
  int fd = -1;
  const Code code =
      driver.mem_get_handle_for_address_range(&fd, begin, end - begin, cuda::kRangeHandleDmaBuf, 0);
  if (code != Code::kSuccess) {
    return Error{Status::kUnsupported,
                 cuda::failure(driver, "cuMemGetHandleForAddressRange", code).message};
  }
  return DmaBuf{UniqueFd(fd), memory.data - begin};
}

bool needs_flush(const cuda::Driver& driver, cuda::Device device) {
  return attribute_of(driver, cuda::Attribute::kGpuDirectRdmaWritesOrdering, device) <
         cuda::kWritesOrderingOwner;
}

Outcome flush_adapter_writes(const cuda::Driver& driver, cuda::Context context) {
  const cuda::CurrentContext current(driver, context);
  return cuda::outcome(driver, "cuFlushGPUDirectRDMAWrites",
                       driver.flush_gpu_direct_rdma_writes(cuda::kFlushTargetCurrentContext,
                                                           cuda::kFlushScopeOwner));
}

}  // namespace tally::gpu
