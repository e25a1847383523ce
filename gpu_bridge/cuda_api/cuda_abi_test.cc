// Compares the own declarations with those of cuda.h, where that is installed.
#include "gpu_bridge/cuda_api/cuda_abi.h"

#include <gtest/gtest.h>

#if __has_include(<cuda.h>)
#include <cuda.h>

#include <string_view>
#include <type_traits>

#include "gpu_bridge/cuda_api/driver.h"
#include "tests/support/abi_comparison.h"

namespace tally::cuda {
namespace {

using test::kCompatible;

#define TALLY_SAME_MEMBER(member, function, parameters) \
  TALLY_SAME_FUNCTION(Driver::member, function);
TALLY_CUDA_FUNCTIONS(TALLY_SAME_MEMBER)

// Many names of functions are macros of cuda.h. Where the macro appends a version to the name
// (cuMemAlloc_v2), the driver finds that version by the name; any other function has to be in the
// table by its own name.
constexpr bool is_version_of(std::string_view expanded, std::string_view name) {
  return expanded == name ||
         (expanded.starts_with(name) && expanded.substr(name.size()).starts_with("_v"));
}
#define TALLY_TEXT(tokens) #tokens
#define TALLY_EXPANDED(tokens) TALLY_TEXT(tokens)
#define TALLY_FOUND_BY_NAME(member, function, parameters)           \
  static_assert(is_version_of(TALLY_EXPANDED(function), #function), \
                #function " means " TALLY_EXPANDED(function) " in cuda.h");
TALLY_CUDA_FUNCTIONS(TALLY_FOUND_BY_NAME)

static_assert(kCompatible<Device, CUdevice>);
static_assert(std::is_same_v<Context, CUcontext> && std::is_same_v<Stream, CUstream>);
static_assert(std::is_same_v<Event, CUevent> && std::is_same_v<Graph, CUgraph>);
static_assert(std::is_same_v<GraphExec, CUgraphExec> && std::is_same_v<Pointer, CUdeviceptr>);
static_assert(std::is_same_v<HostFunction, CUhostFn>);

TALLY_SAME(Code::kSuccess, CUDA_SUCCESS);
TALLY_SAME(Code::kInvalidValue, CUDA_ERROR_INVALID_VALUE);
TALLY_SAME(Code::kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
TALLY_SAME(Code::kNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
TALLY_SAME(Code::kDeinitialized, CUDA_ERROR_DEINITIALIZED);
TALLY_SAME(Code::kNoDevice, CUDA_ERROR_NO_DEVICE);
TALLY_SAME(Code::kInvalidDevice, CUDA_ERROR_INVALID_DEVICE);
TALLY_SAME(Code::kInvalidContext, CUDA_ERROR_INVALID_CONTEXT);
TALLY_SAME(Code::kInvalidHandle, CUDA_ERROR_INVALID_HANDLE);
TALLY_SAME(Code::kNotReady, CUDA_ERROR_NOT_READY);
TALLY_SAME(Code::kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
TALLY_SAME(Code::kHostMemoryAlreadyRegistered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
TALLY_SAME(Code::kHostMemoryNotRegistered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
TALLY_SAME(Code::kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
TALLY_SAME(Code::kNotPermitted, CUDA_ERROR_NOT_PERMITTED);
TALLY_SAME(Code::kNotSupported, CUDA_ERROR_NOT_SUPPORTED);
TALLY_SAME(Code::kStreamCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
TALLY_SAME(Code::kStreamCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
TALLY_SAME(Code::kStreamCaptureMerge, CUDA_ERROR_STREAM_CAPTURE_MERGE);
TALLY_SAME(Code::kStreamCaptureUnmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
TALLY_SAME(Code::kStreamCaptureUnjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
TALLY_SAME(Code::kStreamCaptureIsolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
TALLY_SAME(Code::kStreamCaptureImplicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
TALLY_SAME(Code::kCapturedEvent, CUDA_ERROR_CAPTURED_EVENT);
TALLY_SAME(Code::kStreamCaptureWrongThread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
TALLY_SAME(Code::kUnknown, CUDA_ERROR_UNKNOWN);

TALLY_SAME(Attribute::kAsyncEngineCount, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
TALLY_SAME(Attribute::kPciBusId, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
TALLY_SAME(Attribute::kPciDeviceId, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
TALLY_SAME(Attribute::kPciDomainId, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
TALLY_SAME(Attribute::kUnifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
TALLY_SAME(Attribute::kCanUseHostPointerForRegisteredMemory,
           CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
TALLY_SAME(Attribute::kHostRegisterSupported, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
TALLY_SAME(Attribute::kGpuDirectRdmaSupported, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
TALLY_SAME(Attribute::kGpuDirectRdmaFlushWritesOptions,
           CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
TALLY_SAME(Attribute::kGpuDirectRdmaWritesOrdering,
           CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
TALLY_SAME(Attribute::kDmaBufSupported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);

TALLY_SAME(PointerAttribute::kContext, CU_POINTER_ATTRIBUTE_CONTEXT);
TALLY_SAME(PointerAttribute::kMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
TALLY_SAME(PointerAttribute::kBufferId, CU_POINTER_ATTRIBUTE_BUFFER_ID);
TALLY_SAME(PointerAttribute::kDeviceOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
TALLY_SAME(PointerAttribute::kRangeStart, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
TALLY_SAME(PointerAttribute::kRangeSize, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
TALLY_SAME(kMemoryTypeHost, CU_MEMORYTYPE_HOST);
TALLY_SAME(kMemoryTypeDevice, CU_MEMORYTYPE_DEVICE);

TALLY_SAME(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
TALLY_SAME(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
TALLY_SAME(kHostRegisterPortable, CU_MEMHOSTREGISTER_PORTABLE);
TALLY_SAME(kHostRegisterDeviceMap, CU_MEMHOSTREGISTER_DEVICEMAP);
TALLY_SAME(kWaitValueGeq, CU_STREAM_WAIT_VALUE_GEQ);
TALLY_SAME(kWaitValueEq, CU_STREAM_WAIT_VALUE_EQ);
TALLY_SAME(kWriteValueDefault, CU_STREAM_WRITE_VALUE_DEFAULT);
TALLY_SAME(kRangeHandleDmaBuf, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
TALLY_SAME(kCaptureNone, CU_STREAM_CAPTURE_STATUS_NONE);
TALLY_SAME(kCaptureActive, CU_STREAM_CAPTURE_STATUS_ACTIVE);
TALLY_SAME(kCaptureInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
TALLY_SAME(kCaptureModeGlobal, CU_STREAM_CAPTURE_MODE_GLOBAL);
TALLY_SAME(kCaptureModeThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
TALLY_SAME(kCaptureModeRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
TALLY_SAME(kFlushOptionHost, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST);
TALLY_SAME(kFlushTargetCurrentContext, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX);
TALLY_SAME(kFlushScopeOwner, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
TALLY_SAME(kWritesOrderingOwner, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER);

// The assertions above are the test.
TEST(CudaAbi, EqualsCudaH) {
  RecordProperty("cuda_h", CUDA_VERSION);
}

}  // namespace
}  // namespace tally::cuda
#else
TEST(CudaAbi, EqualsCudaH) {
  GTEST_SKIP() << "cuda.h is not installed";
}
#endif
