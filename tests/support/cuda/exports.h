// The exported functions, with the types and names of gpu_bridge/cuda_api. Each is defined under
// the name of its member of Driver: exported::mem_alloc is the symbol cuMemAlloc.
#pragma once

#include "gpu_bridge/cuda_api/driver.h"
#include "tests/support/cuda/cuda_process.h"

namespace tally::test::cuda::exported {

#define TALLY_TEST_CUDA_FUNCTION(member, function, parameters) \
  TALLY_TEST_EXPORT Code member parameters __asm__(#function);
TALLY_CUDA_FUNCTIONS(TALLY_TEST_CUDA_FUNCTION)
#undef TALLY_TEST_CUDA_FUNCTION

}  // namespace tally::test::cuda::exported
