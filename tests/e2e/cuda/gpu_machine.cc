// The GPUs of this machine.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/cuda/machine.h"

namespace tally::testing {

std::string CudaMachine::why_not(const MachineOptions& options) {
  const auto driver = cuda::system_driver();
  if (!driver) return driver.error().message;
  int count = 0;
  if ((*driver)->device_get_count(&count) != cuda::Code::kSuccess) count = 0;
  if (!options.dma_buf || !options.stream_memory_operations)
    return "needs a device without dma-bufs or stream memory operations";
  if (count >= options.devices) return {};
  return fmt::format("needs {} GPUs and this machine has {}", options.devices, count);
}

CudaMachine::CudaMachine(const MachineOptions&) : driver_(*cuda::system_driver()) {}

CudaMachine::~CudaMachine() = default;

bool CudaMachine::counts(Work&) const {
  return false;
}

bool CudaMachine::break_device(int) {
  return false;
}

bool CudaMachine::fail(const char*, std::uint64_t) {
  return false;
}

}  // namespace tally::testing
