// ncclCommInitRank with a deadline.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

#include "base/result.h"
#include "gpu_bridge/cuda_api/driver.h"
#include "gpu_bridge/nccl_api/library.h"

namespace tally::python {

struct CommStart {
  const nccl::Library* library = nullptr;
  const cuda::Driver* driver = nullptr;
  cuda::Context context = nullptr;
  std::size_t ranks = 0;
  std::size_t rank = 0;
  nccl::UniqueId id{};
};

// All ranks of the id call it. NCCL's call has no deadline. So it has a thread of its own, which
// ends the communicator if it comes too late. Calls `interrupted` now and then, which may throw.
Result<nccl::Comm> start_comm(const CommStart& start, std::chrono::milliseconds limit,
                              const std::function<void()>& interrupted);

}  // namespace tally::python
