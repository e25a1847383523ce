#include "gpu_bridge/memory/pinned_memory.h"

#include <fmt/format.h>

#include <utility>

namespace tally::gpu {

using cuda::Code;

Result<PinnedMemory> PinnedMemory::pin(const cuda::Driver& driver, cuda::Context context,
                                       std::span<std::byte> memory) {
  const cuda::CurrentContext current(driver, context);
  const unsigned flags = cuda::kHostRegisterPortable | cuda::kHostRegisterDeviceMap;
  Code code = driver.mem_host_register(memory.data(), memory.size(), flags);
  if (code != Code::kSuccess) {
    return Error{
        Status::kNoMemory,
        fmt::format("{} bytes of host memory cannot be pinned: {}; see `ulimit -l` and "
                    "the memory limit of the cgroup",
                    memory.size(), cuda::failure(driver, "cuMemHostRegister", code).message)};
  }
  PinnedMemory pinned;
  pinned.driver_ = &driver;
  pinned.context_ = context;
  pinned.memory_ = memory;
  code = driver.mem_host_get_device_pointer(&pinned.device_begin_, memory.data(), 0);
  if (code != Code::kSuccess) {
    return cuda::failure(driver, "cuMemHostGetDevicePointer", code);
  }
  return pinned;
}

PinnedMemory::~PinnedMemory() {
  if (driver_ == nullptr) return;
  const cuda::CurrentContext current(*driver_, context_);
  driver_->mem_host_unregister(memory_.data());
}

void PinnedMemory::swap(PinnedMemory& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(context_, other.context_);
  std::swap(memory_, other.memory_);
  std::swap(device_begin_, other.device_begin_);
}

}  // namespace tally::gpu
