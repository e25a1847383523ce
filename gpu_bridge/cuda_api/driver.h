// CUDA's driver, as a table of its functions. The library is opened at run time, so that programs
// that link this also load on machines without it.
#pragma once

#include <string>

#include "base/result.h"
#include "gpu_bridge/cuda_api/cuda_abi.h"

namespace tally::cuda {

// F(member, function of CUDA, its parameters): the functions of cuda.h with the semantics of
// version kVersion of CUDA. The driver finds them by these names, so a name that is only a macro of
// cuda.h is replaced by what the macro means: cuGraphInstantiate finds an older function with other
// parameters.
#define TALLY_CUDA_FUNCTIONS(F)                                                                   \
  F(init, cuInit, (unsigned flags))                                                               \
  F(get_error_name, cuGetErrorName, (Code code, const char** name))                               \
  F(get_error_string, cuGetErrorString, (Code code, const char** text))                           \
  F(device_get_count, cuDeviceGetCount, (int* count))                                             \
  F(device_get, cuDeviceGet, (Device * device, int ordinal))                                      \
  F(device_get_attribute, cuDeviceGetAttribute, (int* value, Attribute attribute, Device device)) \
  F(primary_ctx_retain, cuDevicePrimaryCtxRetain, (Context * context, Device device))             \
  F(primary_ctx_release, cuDevicePrimaryCtxRelease, (Device device))                              \
  F(ctx_push_current, cuCtxPushCurrent, (Context context))                                        \
  F(ctx_pop_current, cuCtxPopCurrent, (Context * context))                                        \
  F(ctx_get_current, cuCtxGetCurrent, (Context * context))                                        \
  F(ctx_get_device, cuCtxGetDevice, (Device * device))                                            \
  F(ctx_synchronize, cuCtxSynchronize, ())                                                        \
  F(pointer_get_attribute, cuPointerGetAttribute,                                                 \
    (void* value, PointerAttribute attribute, Pointer pointer))                                   \
  F(mem_alloc, cuMemAlloc, (Pointer * pointer, std::size_t bytes))                                \
  F(mem_free, cuMemFree, (Pointer pointer))                                                       \
  F(mem_host_register, cuMemHostRegister, (void* data, std::size_t bytes, unsigned flags))        \
  F(mem_host_unregister, cuMemHostUnregister, (void* data))                                       \
  F(mem_host_get_device_pointer, cuMemHostGetDevicePointer,                                       \
    (Pointer * pointer, void* data, unsigned flags))                                              \
  F(mem_get_handle_for_address_range, cuMemGetHandleForAddressRange,                              \
    (void* handle, Pointer pointer, std::size_t bytes, unsigned type, unsigned long long flags))  \
  F(memcpy_dtoh_async, cuMemcpyDtoHAsync,                                                         \
    (void* to, Pointer from, std::size_t bytes, Stream stream))                                   \
  F(memcpy_htod_async, cuMemcpyHtoDAsync,                                                         \
    (Pointer to, const void* from, std::size_t bytes, Stream stream))                             \
  F(memcpy_dtod_async, cuMemcpyDtoDAsync,                                                         \
    (Pointer to, Pointer from, std::size_t bytes, Stream stream))                                 \
  F(memset_d32_async, cuMemsetD32Async,                                                           \
    (Pointer to, unsigned value, std::size_t words, Stream stream))                               \
  F(stream_create, cuStreamCreate, (Stream * stream, unsigned flags))                             \
  F(stream_destroy, cuStreamDestroy, (Stream stream))                                             \
  F(stream_synchronize, cuStreamSynchronize, (Stream stream))                                     \
  F(stream_query, cuStreamQuery, (Stream stream))                                                 \
  F(stream_get_ctx, cuStreamGetCtx, (Stream stream, Context * context))                           \
  F(stream_wait_event, cuStreamWaitEvent, (Stream stream, Event event, unsigned flags))           \
  F(stream_wait_value32, cuStreamWaitValue32,                                                     \
    (Stream stream, Pointer word, std::uint32_t value, unsigned flags))                           \
  F(stream_write_value32, cuStreamWriteValue32,                                                   \
    (Stream stream, Pointer word, std::uint32_t value, unsigned flags))                           \
  F(stream_is_capturing, cuStreamIsCapturing, (Stream stream, unsigned* status))                  \
  F(thread_exchange_stream_capture_mode, cuThreadExchangeStreamCaptureMode, (unsigned* mode))     \
  F(stream_begin_capture, cuStreamBeginCapture, (Stream stream, unsigned mode))                   \
  F(stream_end_capture, cuStreamEndCapture, (Stream stream, Graph * graph))                       \
  F(graph_instantiate, cuGraphInstantiateWithFlags,                                               \
    (GraphExec * exec, Graph graph, unsigned long long flags))                                    \
  F(graph_launch, cuGraphLaunch, (GraphExec exec, Stream stream))                                 \
  F(graph_destroy, cuGraphDestroy, (Graph graph))                                                 \
  F(graph_exec_destroy, cuGraphExecDestroy, (GraphExec exec))                                     \
  F(event_create, cuEventCreate, (Event * event, unsigned flags))                                 \
  F(event_destroy, cuEventDestroy, (Event event))                                                 \
  F(event_record, cuEventRecord, (Event event, Stream stream))                                    \
  F(event_query, cuEventQuery, (Event event))                                                     \
  F(event_synchronize, cuEventSynchronize, (Event event))                                         \
  F(event_elapsed_time, cuEventElapsedTime, (float* ms, Event begin, Event end))                  \
  F(launch_host_func, cuLaunchHostFunc, (Stream stream, HostFunction function, void* user))       \
  F(flush_gpu_direct_rdma_writes, cuFlushGPUDirectRDMAWrites, (unsigned target, unsigned scope))

inline constexpr int kVersion = 12000;

struct Driver {
#define TALLY_CUDA_MEMBER(member, function, parameters) Code(*member) parameters = nullptr;
  TALLY_CUDA_FUNCTIONS(TALLY_CUDA_MEMBER)
#undef TALLY_CUDA_MEMBER
};

// Opens libcuda.so.1, once for the process; the library is never closed. Any thread. kUnsupported:
// no driver of NVIDIA is installed, it is older than CUDA 12.0, or it finds no device; the message
// says which.
Result<const Driver*> system_driver();

// The error of a call of the driver: "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
Error failure(const Driver& driver, const char* call, Code code);

// Unit for kSuccess, else failure().
Outcome outcome(const Driver& driver, const char* call, Code code);

// By default a capture in mode global, which PyTorch uses, forbids many calls to all threads, and
// such a call ends the capture. Afterwards no capture of another thread concerns the calls of the
// calling thread.
inline void allow_calls_during_captures(const Driver& driver) {
  unsigned mode = kCaptureModeRelaxed;
  driver.thread_exchange_stream_capture_mode(&mode);
}

// The context is the thread's current one for the life of this object.
class CurrentContext {
 public:
  CurrentContext(const Driver& driver, Context context) : driver_(driver) {
    pushed_ = driver_.ctx_push_current(context) == Code::kSuccess;
  }
  ~CurrentContext() {
    Context popped = nullptr;
    if (pushed_) driver_.ctx_pop_current(&popped);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  const Driver& driver_;
  bool pushed_ = false;
};

}  // namespace tally::cuda
