// The CUDA devices of a test: those of this machine, or the CUDA of the process
// (tests/support/cuda), as the test program is linked.
#pragma once

#include <cstdint>
#include <string>

#include "gpu_bridge/cuda_api/driver.h"

namespace tally::testing {

struct MachineOptions {
  int devices = 1;
  // Hardware queues of a device. Real devices have what they have.
  unsigned queues = 8;
  std::uint64_t seed = 0;  // of delays; 0: none
  bool dma_buf = true;
  bool stream_memory_operations = true;
};

class CudaMachine {
 public:
  // Why these tests cannot run here; empty when they can.
  static std::string why_not(const MachineOptions& options);
  explicit CudaMachine(const MachineOptions& options = {});
  // Fails the test when the library has used CUDA wrongly, or when a stream waits for ever.
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
  };
  bool counts(Work& work) const;
  // Breaks the device, as a kernel with an illegal address does. False: not here.
  bool break_device(int device);

 private:
  const cuda::Driver* driver_ = nullptr;
};

}  // namespace tally::testing
