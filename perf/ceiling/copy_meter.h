// The ceiling of collectives on memory of a CUDA device: the same bytes in pinned copies, from the
// device and to it at once.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/system/fd.h"
#include "perf/ceiling/ceiling.h"
#include "perf/ceiling/meter.h"
#include "perf/measure/device.h"

namespace tally::perf {

class CopyMeter final : public Meter {
 public:
  // For ranks that share one device.
  static Result<std::unique_ptr<Meter>> open(const MeterSetting& setting);

  std::string description() const override {
    return "pinned copies from the device and to it at once";
  }
  void begin(const Row& row) override;
  Outcome sample() override;
  double gigabytes_per_second() const override;

 private:
  // A direction's bytes lie side by side.
  struct Direction {
    std::uint32_t buffers = 0;
    cuda::Pointer device = 0;
    Mapping host;
    gpu::PinnedMemory pinned;
    gpu::OwnedStream stream;
  };

  CopyMeter() = default;
  Outcome prepare(Direction& direction, std::uint32_t buffers, std::uint64_t bytes);

  std::unique_ptr<Device> device_;
  Direction down_;
  Direction up_;
  std::uint64_t bytes_ = 0;
  std::vector<Nanos> times_;
};

}  // namespace tally::perf
