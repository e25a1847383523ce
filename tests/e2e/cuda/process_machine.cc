// The CUDA of the process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/cuda/machine.h"
#include "tests/support/cuda/cuda_process.h"

namespace tally::testing {

std::string CudaMachine::why_not(const MachineOptions&) {
  return {};
}

CudaMachine::CudaMachine(const MachineOptions& options) {
  test::cuda::Settings settings;
  settings.devices = options.devices;
  settings.queues = options.queues;
  settings.queue_depth = options.queue_depth;
  settings.bandwidth_up = options.bandwidth_up;
  settings.registration_synchronizes = options.registration_synchronizes;
  settings.seed = options.seed;
  settings.dma_buf = options.dma_buf;
  settings.stream_memory_operations = options.stream_memory_operations;
  if (options.seed != 0) settings.longest_delay = std::chrono::microseconds(100);
  settings.uses_host_pointers = options.seed % 2 == 0;
  test::cuda::reset(settings);
  const auto driver = cuda::system_driver();
  EXPECT_TRUE(driver) << (driver ? "" : driver.error().message);
  if (driver) driver_ = *driver;
}

CudaMachine::~CudaMachine() {
  const auto deadline = test::cuda::Clock::now() + std::chrono::seconds(20);
  EXPECT_TRUE(test::cuda::wait_until_idle(deadline));
  for (const auto& waiting : test::cuda::waiting()) ADD_FAILURE() << "waits " << waiting.on;
  EXPECT_THAT(test::cuda::misuses(), ::testing::IsEmpty());
}

bool CudaMachine::counts(Work& work) const {
  auto counters = test::cuda::counters();
  work = {counters.host_synchronizations,
          counters.allocations,
          counters.calls["cuMemHostRegister"] + counters.calls["cuStreamCreate"] +
              counters.calls["cuEventCreate"],
          counters.bytes_down,
          counters.bytes_up,
          counters.live_registrations};
  return true;
}

bool CudaMachine::break_device(int device) {
  test::cuda::break_context(device, cuda::Code::kIllegalAddress);
  return true;
}

bool CudaMachine::fail(const char* function, std::uint64_t nth) {
  test::cuda::fail(function, nth, cuda::Code::kOutOfMemory);
  return true;
}

}  // namespace tally::testing
