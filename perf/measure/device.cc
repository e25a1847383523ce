#include "perf/measure/device.h"

namespace tally::perf {

using cuda::outcome;

Result<std::unique_ptr<Device>> Device::open(std::uint32_t rank) {
  const auto found = cuda::system_driver();
  if (!found) return found.error();
  const cuda::Driver& driver = **found;
  int count = 0;
  auto done = outcome(driver, "cuDeviceGetCount", driver.device_get_count(&count));
  if (!done) return done.error();
  if (count == 0) return Error{Status::kUnsupported, "this machine has no CUDA device"};
  cuda::Device device = 0;
  done = outcome(driver, "cuDeviceGet",
                 driver.device_get(&device, static_cast<int>(rank % static_cast<unsigned>(count))));
  if (!done) return done.error();
  std::unique_ptr<Device> opened(new Device(driver, device));
  done = outcome(driver, "cuDevicePrimaryCtxRetain",
                 driver.primary_ctx_retain(&opened->context_, device));
  if (!done) return done.error();
  auto stream = gpu::make_stream(driver, opened->context_);
  if (!stream) return stream.error();
  opened->stream_ = std::move(stream).value();
  return opened;
}

Device::~Device() {
  stream_ = {};
  if (context_ == nullptr) return;
  {
    const cuda::CurrentContext current(driver_, context_);
    for (const cuda::Pointer allocation : allocations_) driver_.mem_free(allocation);
  }
  driver_.primary_ctx_release(device_);
}

Result<cuda::Pointer> Device::allocate(std::uint64_t bytes) {
  const cuda::CurrentContext current(driver_, context_);
  cuda::Pointer made = 0;
  auto done = outcome(driver_, "cuMemAlloc", driver_.mem_alloc(&made, bytes));
  if (!done) return done.error();
  allocations_.push_back(made);
  return made;
}

Outcome Device::upload(cuda::Pointer to, const std::byte* from, std::uint64_t bytes) const {
  const cuda::CurrentContext current(driver_, context_);
  auto done = outcome(driver_, "cuMemcpyHtoDAsync",
                      driver_.memcpy_htod_async(to, from, bytes, stream_.get()));
  if (!done) return done;
  return outcome(driver_, "cuStreamSynchronize", driver_.stream_synchronize(stream_.get()));
}

Outcome Device::download(std::byte* to, cuda::Pointer from, std::uint64_t bytes) const {
  const cuda::CurrentContext current(driver_, context_);
  auto done = outcome(driver_, "cuMemcpyDtoHAsync",
                      driver_.memcpy_dtoh_async(to, from, bytes, stream_.get()));
  if (!done) return done;
  return outcome(driver_, "cuStreamSynchronize", driver_.stream_synchronize(stream_.get()));
}

}  // namespace tally::perf
