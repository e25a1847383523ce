// The own declarations beside those of nccl.h, where that is installed.
#include "gpu_bridge/nccl_api/nccl_abi.h"

#include <gtest/gtest.h>

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime_api.h>)
#include <nccl.h>

#include <type_traits>

#include "gpu_bridge/nccl_api/library.h"

namespace tally::nccl {
namespace {

// A type without the names of enumerations and of the unique id: what the calling convention sees.
template <typename Type, bool = std::is_enum_v<Type>>
struct PlainType {
  using Is = Type;
};
template <typename Type>
struct PlainType<Type, true> {
  using Is = std::underlying_type_t<Type>;
};
template <>
struct PlainType<ncclUniqueId, false> {
  using Is = UniqueId;
};
template <typename Type>
struct PlainType<Type*, false> {
  using Is = typename PlainType<Type>::Is*;
};
template <typename Result, typename... Parameters>
struct PlainType<Result (*)(Parameters...), false> {
  using Is = typename PlainType<Result>::Is (*)(typename PlainType<Parameters>::Is...);
};

template <typename Own, typename Theirs>
constexpr bool kSameCall =
    std::is_same_v<typename PlainType<Own>::Is, typename PlainType<Theirs>::Is>;

#define TALLY_SAME_CALL(type, member, function, parameters)                \
  static_assert(kSameCall<decltype(Library::member), decltype(&function)>, \
                #function " has other parameters in nccl.h");
TALLY_NCCL_FUNCTIONS(TALLY_SAME_CALL)

static_assert(std::is_same_v<Comm, ncclComm_t> && std::is_same_v<cuda::Stream, cudaStream_t>);
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId) && sizeof(UniqueId) == NCCL_UNIQUE_ID_BYTES);
static_assert(alignof(UniqueId) == alignof(ncclUniqueId));

#define TALLY_SAME_VALUE(own, theirs) \
  static_assert(static_cast<long>(own) == static_cast<long>(theirs))
TALLY_SAME_VALUE(Code::kSuccess, ncclSuccess);
TALLY_SAME_VALUE(Code::kUnhandledCudaError, ncclUnhandledCudaError);
TALLY_SAME_VALUE(Code::kSystemError, ncclSystemError);
TALLY_SAME_VALUE(Code::kInternalError, ncclInternalError);
TALLY_SAME_VALUE(Code::kInvalidArgument, ncclInvalidArgument);
TALLY_SAME_VALUE(Code::kInvalidUsage, ncclInvalidUsage);
TALLY_SAME_VALUE(Code::kRemoteError, ncclRemoteError);
TALLY_SAME_VALUE(Code::kInProgress, ncclInProgress);
TALLY_SAME_VALUE(DataType::kInt8, ncclInt8);
TALLY_SAME_VALUE(DataType::kUint8, ncclUint8);
TALLY_SAME_VALUE(DataType::kInt32, ncclInt32);
TALLY_SAME_VALUE(DataType::kUint32, ncclUint32);
TALLY_SAME_VALUE(DataType::kInt64, ncclInt64);
TALLY_SAME_VALUE(DataType::kUint64, ncclUint64);
TALLY_SAME_VALUE(DataType::kFloat16, ncclFloat16);
TALLY_SAME_VALUE(DataType::kFloat32, ncclFloat32);
TALLY_SAME_VALUE(DataType::kFloat64, ncclFloat64);
TALLY_SAME_VALUE(DataType::kBfloat16, ncclBfloat16);
TALLY_SAME_VALUE(RedOp::kSum, ncclSum);
TALLY_SAME_VALUE(RedOp::kProd, ncclProd);
TALLY_SAME_VALUE(RedOp::kMax, ncclMax);
TALLY_SAME_VALUE(RedOp::kMin, ncclMin);
TALLY_SAME_VALUE(RedOp::kAvg, ncclAvg);

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
