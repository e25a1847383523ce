// The types and constants of NCCL that Tally uses, so that a machine without NCCL builds all of
// Tally. The names are NCCL's, less their prefixes. nccl_abi_test.cc compares them with nccl.h
// where that is installed.
#pragma once

#include <cstddef>

#include "gpu_bridge/cuda_api/cuda_abi.h"

// NCCL's own opaque type, so that a handle of nccl.h is a handle here.
struct ncclComm;  // NOLINT(readability-identifier-naming)

namespace tally::nccl {

using Comm = ncclComm*;

// ncclUniqueId. One rank makes it; the program gives the same bytes to all ranks.
struct UniqueId {
  char internal[128];
};

// ncclResult_t.
enum class Code : unsigned {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

// ncclDataType_t.
enum class DataType : unsigned {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
};

// ncclRedOp_t.
enum class RedOp : unsigned { kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAvg = 4 };

}  // namespace tally::nccl
