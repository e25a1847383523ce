// The CUDA devices of a test: those of this machine, or the CUDA of the process
// (tests/support/cuda), as the test program is linked.
#pragma once

#include <cstdint>
#include <string>

#include "gpu_bridge/cuda_api/driver.h"

namespace tally::testing {

struct MachineOptions {
  int devices = 1;
  // These have no effect on real devices: the hardware queues of a device, the operations that one
  // takes before it blocks callers (0: any number), the bytes per second to a device (0: as fast as
  // possible), and the seed of delays (0: none).
  unsigned queues = 8;
  std::size_t queue_depth = 0;
  std::uint64_t bandwidth_up = 0;
  std::uint64_t seed = 0;
  bool registration_synchronizes = false;  // pins memory only when the device has no work
  bool dma_buf = true;
  bool stream_memory_operations = true;
};

class CudaMachine {
 public:
  // Why these tests cannot run here; empty when they can.
  static std::string why_not(const MachineOptions& options);
  explicit CudaMachine(const MachineOptions& options = {});
  // Fails the test when the library has used CUDA wrongly, or when a stream waits forever.
  ~CudaMachine();
  CudaMachine(const CudaMachine&) = delete;
  CudaMachine& operator=(const CudaMachine&) = delete;

  const cuda::Driver& driver() const { return *driver_; }

  // What the devices have done since the construction. False: they do not count.
  struct Work {
    std::uint64_t host_synchronizations = 0;
    std::uint64_t allocations = 0;
    std::uint64_t registrations = 0;
    std::uint64_t bytes_down = 0;
    std::uint64_t bytes_up = 0;
    std::uint64_t pinned = 0;  // ranges of host memory that are pinned now
  };
  bool counts(Work& work) const;
  // Breaks the device, as a kernel with an illegal address does. False: not here.
  bool break_device(int device);
  // The nth call of this function of CUDA from now on fails. False: not here.
  bool fail(const char* function, std::uint64_t nth);

 private:
  const cuda::Driver* driver_ = nullptr;
};

}  // namespace tally::testing
