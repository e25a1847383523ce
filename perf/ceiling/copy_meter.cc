#include "perf/ceiling/copy_meter.h"

#include <sys/mman.h>

#include <algorithm>

namespace tally::perf {

using cuda::outcome;

Result<std::unique_ptr<Meter>> CopyMeter::open(const MeterSetting& setting) {
  auto device = Device::open(0);
  if (!device) return device.error();
  std::unique_ptr<CopyMeter> meter(new CopyMeter());
  meter->device_ = std::move(device).value();
  std::uint64_t most = 0;
  for (const Row& row : setting.rows) most = std::max(most, row.bytes());
  const Traffic traffic = minimal_traffic(setting.options.kind, setting.options.ranks);
  if (auto done = meter->prepare(meter->down_, traffic.inputs, most); !done) return done.error();
  if (auto done = meter->prepare(meter->up_, traffic.outputs, most); !done) return done.error();
  return std::unique_ptr<Meter>(std::move(meter));
}

Outcome CopyMeter::prepare(Direction& direction, std::uint32_t buffers, std::uint64_t bytes) {
  direction.buffers = buffers;
  const std::uint64_t all = std::max<std::uint64_t>(buffers * bytes, 1);
  auto device = device_->allocate(all);
  if (!device) return device.error();
  direction.device = *device;
  void* const address = ::mmap(nullptr, all, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (address == MAP_FAILED) return Error{Status::kNoMemory, "no memory for the ceiling"};
  direction.host = Mapping(address, all);
  auto pinned =
      gpu::PinnedMemory::pin(device_->driver(), device_->context(), {direction.host.data(), all});
  if (!pinned) return pinned.error();
  direction.pinned = std::move(pinned).value();
  auto stream = gpu::make_stream(device_->driver(), device_->context());
  if (!stream) return stream.error();
  direction.stream = std::move(stream).value();
  return Unit{};
}

void CopyMeter::begin(const Row& row) {
  bytes_ = row.bytes();
  times_.clear();
}

Outcome CopyMeter::sample() {
  const cuda::Driver& driver = device_->driver();
  const cuda::CurrentContext current(driver, device_->context());
  const Nanos begin = monotonic_now();
  auto done = outcome(driver, "cuMemcpyDtoHAsync",
                      driver.memcpy_dtoh_async(down_.host.data(), down_.device,
                                               down_.buffers * bytes_, down_.stream.get()));
  if (!done) return done;
  done = outcome(driver, "cuMemcpyHtoDAsync",
                 driver.memcpy_htod_async(up_.device, up_.host.data(), up_.buffers * bytes_,
                                          up_.stream.get()));
  if (!done) return done;
  for (const Direction* direction : {&down_, &up_}) {
    done =
        outcome(driver, "cuStreamSynchronize", driver.stream_synchronize(direction->stream.get()));
    if (!done) return done;
  }
  times_.push_back(monotonic_now() - begin);
  return Unit{};
}

double CopyMeter::gigabytes_per_second() const {
  if (times_.empty()) return 0;
  std::vector<Nanos> sorted = times_;
  std::ranges::nth_element(sorted, sorted.begin() + std::ssize(sorted) / 2);
  return static_cast<double>(bytes_) / static_cast<double>(sorted[sorted.size() / 2]);
}

}  // namespace tally::perf
