// The types and constants of CUDA's driver interface that Tally uses, so that a machine without
// CUDA builds all of Tally. The names are CUDA's, less their prefixes. cuda_abi_test.cc compares
// them with cuda.h where that is installed.
#pragma once

#include <cstddef>
#include <cstdint>

// CUDA's own opaque types, so that a handle of cuda.h is a handle here.
struct CUctx_st;        // NOLINT(readability-identifier-naming)
struct CUstream_st;     // NOLINT(readability-identifier-naming)
struct CUevent_st;      // NOLINT(readability-identifier-naming)
struct CUgraph_st;      // NOLINT(readability-identifier-naming)
struct CUgraphExec_st;  // NOLINT(readability-identifier-naming)

namespace tally::cuda {

using Device = int;
using Context = CUctx_st*;
using Stream = CUstream_st*;  // null: the legacy default stream
using Event = CUevent_st*;
using Graph = CUgraph_st*;
using GraphExec = CUgraphExec_st*;
using Pointer = unsigned long long;  // CUdeviceptr
using HostFunction = void (*)(void*);

// CUresult.
enum class Code : unsigned {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kInvalidHandle = 400,
  kNotReady = 600,
  kIllegalAddress = 700,
  kHostMemoryAlreadyRegistered = 712,
  kHostMemoryNotRegistered = 713,
  kLaunchFailed = 719,
  kNotPermitted = 800,
  kNotSupported = 801,
  kStreamCaptureUnsupported = 900,
  kStreamCaptureInvalidated = 901,
  kStreamCaptureMerge = 902,
  kStreamCaptureUnmatched = 903,
  kStreamCaptureUnjoined = 904,
  kStreamCaptureIsolation = 905,
  kStreamCaptureImplicit = 906,
  kCapturedEvent = 907,
  kStreamCaptureWrongThread = 908,
  kUnknown = 999,
};

// CUdevice_attribute.
enum class Attribute : unsigned {
  kPciBusId = 33,
  kPciDeviceId = 34,
  kAsyncEngineCount = 40,
  kUnifiedAddressing = 41,
  kPciDomainId = 50,
  kCanUseHostPointerForRegisteredMemory = 91,
  kHostRegisterSupported = 99,
  kGpuDirectRdmaSupported = 116,
  kGpuDirectRdmaFlushWritesOptions = 117,
  kGpuDirectRdmaWritesOrdering = 118,
  kDmaBufSupported = 124,
};

// CUpointer_attribute, with the type of its value.
enum class PointerAttribute : unsigned {
  kContext = 1,        // Context
  kMemoryType = 2,     // unsigned: kMemoryType...
  kBufferId = 7,       // unsigned long long
  kDeviceOrdinal = 9,  // int
  kRangeStart = 11,    // Pointer
  kRangeSize = 12,     // std::size_t
};
inline constexpr unsigned kMemoryTypeHost = 1;
inline constexpr unsigned kMemoryTypeDevice = 2;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kHostRegisterPortable = 1;
inline constexpr unsigned kHostRegisterDeviceMap = 2;
inline constexpr unsigned kWaitValueGeq = 0;
inline constexpr unsigned kWaitValueEq = 1;
inline constexpr unsigned kWriteValueDefault = 0;
inline constexpr unsigned kRangeHandleDmaBuf = 1;  // CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
inline constexpr unsigned kCaptureNone = 0;        // CUstreamCaptureStatus
inline constexpr unsigned kCaptureActive = 1;
inline constexpr unsigned kCaptureInvalidated = 2;
inline constexpr unsigned kCaptureModeGlobal = 0;       // CUstreamCaptureMode
inline constexpr unsigned kCaptureModeThreadLocal = 1;  // CUstreamCaptureMode
inline constexpr unsigned kCaptureModeRelaxed = 2;
inline constexpr int kFlushOptionHost = 1;  // CUflushGPUDirectRDMAWritesOptions
inline constexpr unsigned kFlushTargetCurrentContext = 0;
inline constexpr unsigned kFlushScopeOwner = 100;
inline constexpr int kWritesOrderingOwner = 100;  // CUGPUDirectRDMAWritesOrdering

}  // namespace tally::cuda
