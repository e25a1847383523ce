// The exported functions, with the types and names of gpu_bridge/nccl_api. Each is defined under
// the name of its member of Library: exported::reduce is the symbol ncclReduce.
#pragma once

#include "gpu_bridge/nccl_api/library.h"
#include "tests/support/nccl/nccl_process.h"

namespace tally::test::nccl::exported {

using tally::cuda::Stream;

#define TALLY_TEST_NCCL_FUNCTION(type, member, function, parameters) \
  TALLY_TEST_NCCL_EXPORT type member parameters __asm__(#function);
TALLY_NCCL_FUNCTIONS(TALLY_TEST_NCCL_FUNCTION)
#undef TALLY_TEST_NCCL_FUNCTION

}  // namespace tally::test::nccl::exported
