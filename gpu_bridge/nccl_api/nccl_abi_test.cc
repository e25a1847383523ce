// Compares the own declarations with those of nccl.h, where that is installed.
#include "gpu_bridge/nccl_api/nccl_abi.h"

#include <gtest/gtest.h>

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime_api.h>)
#include <nccl.h>

#include <type_traits>

#include "gpu_bridge/nccl_api/library.h"
#include "tests/support/abi_comparison.h"

// The assertions below compare its layout.
template <>
struct tally::test::Plain<ncclUniqueId> {
  using Is = tally::nccl::UniqueId;
};

namespace tally::nccl {
namespace {

#define TALLY_SAME_MEMBER(type, member, function, parameters) \
  TALLY_SAME_FUNCTION(Library::member, function);
TALLY_NCCL_FUNCTIONS(TALLY_SAME_MEMBER)

static_assert(std::is_same_v<Comm, ncclComm_t> && std::is_same_v<cuda::Stream, cudaStream_t>);
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId) && sizeof(UniqueId) == NCCL_UNIQUE_ID_BYTES);
static_assert(alignof(UniqueId) == alignof(ncclUniqueId));

TALLY_SAME(Code::kSuccess, ncclSuccess);
TALLY_SAME(Code::kUnhandledCudaError, ncclUnhandledCudaError);
TALLY_SAME(Code::kSystemError, ncclSystemError);
TALLY_SAME(Code::kInternalError, ncclInternalError);
TALLY_SAME(Code::kInvalidArgument, ncclInvalidArgument);
TALLY_SAME(Code::kInvalidUsage, ncclInvalidUsage);
TALLY_SAME(Code::kRemoteError, ncclRemoteError);
TALLY_SAME(Code::kInProgress, ncclInProgress);
TALLY_SAME(DataType::kInt8, ncclInt8);
TALLY_SAME(DataType::kUint8, ncclUint8);
TALLY_SAME(DataType::kInt32, ncclInt32);
TALLY_SAME(DataType::kUint32, ncclUint32);
TALLY_SAME(DataType::kInt64, ncclInt64);
TALLY_SAME(DataType::kUint64, ncclUint64);
TALLY_SAME(DataType::kFloat16, ncclFloat16);
TALLY_SAME(DataType::kFloat32, ncclFloat32);
TALLY_SAME(DataType::kFloat64, ncclFloat64);
TALLY_SAME(DataType::kBfloat16, ncclBfloat16);
TALLY_SAME(RedOp::kSum, ncclSum);
TALLY_SAME(RedOp::kProd, ncclProd);
TALLY_SAME(RedOp::kMax, ncclMax);
TALLY_SAME(RedOp::kMin, ncclMin);
TALLY_SAME(RedOp::kAvg, ncclAvg);

// The assertions above are the test.
TEST(NcclAbi, EqualsNcclH) {
  RecordProperty("nccl_h", NCCL_VERSION_CODE);
}

}  // namespace
}  // namespace tally::nccl
#else
TEST(NcclAbi, EqualsNcclH) {
  GTEST_SKIP() << "nccl.h or CUDA's runtime headers are not installed";
}
#endif
