// The exported functions of errors, devices and contexts.
#include <unistd.h>

#include "tests/support/cuda/enqueue.h"
#include "tests/support/cuda/entry.h"
#include "tests/support/cuda/exports.h"

namespace tally::test::cuda::exported {
namespace {

struct ErrorText {
  Code code;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
    {Code::kSuccess, "CUDA_SUCCESS", "no error"},
    {Code::kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {Code::kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {Code::kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {Code::kDeinitialized, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {Code::kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {Code::kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {Code::kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {Code::kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {Code::kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {Code::kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {Code::kHostMemoryAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {Code::kHostMemoryNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {Code::kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {Code::kNotPermitted, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {Code::kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {Code::kStreamCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {Code::kStreamCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {Code::kStreamCaptureMerge, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
     "operation would result in a merge of separate capture sequences"},
    {Code::kStreamCaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {Code::kStreamCaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "capturing stream has unjoined work"},
    {Code::kStreamCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {Code::kStreamCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {Code::kCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {Code::kStreamCaptureWrongThread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {Code::kUnknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

Code error_text(Code code, const char** out, const char* ErrorText::*member) {
  for (const ErrorText& error : kErrors) {
    if (error.code != code) continue;
    *out = error.*member;
    return Code::kSuccess;
  }
  *out = nullptr;
  return Code::kInvalidValue;
}

// body(machine): for a device that exists.
template <typename Body>
Code device_call(const char* function, Device device, Body body) {
  return call(function, Needs::kInit, [&](Machine& all, Machine::Lock& lock, ContextState*) {
    if (device < 0 || device >= all.settings.devices) return Code::kInvalidDevice;
    return body(all, lock);
  });
}

int attribute_value(const Settings& settings, Attribute attribute, Device device) {
  switch (attribute) {
    case Attribute::kPciBusId:
      return device;
    case Attribute::kPciDeviceId:
    case Attribute::kPciDomainId:
      return 0;
    case Attribute::kAsyncEngineCount:
      return 2;
    case Attribute::kUnifiedAddressing:
    case Attribute::kHostRegisterSupported:
    case Attribute::kGpuDirectRdmaFlushWritesOptions:
      return 1;  // kFlushOptionHost
    case Attribute::kCanUseHostPointerForRegisteredMemory:
      return settings.uses_host_pointers;
    case Attribute::kGpuDirectRdmaSupported:
    case Attribute::kDmaBufSupported:
      return settings.dma_buf;
    case Attribute::kGpuDirectRdmaWritesOrdering:
      return settings.rdma_writes_ordering;
  }
  return 0;
}

}  // namespace

Code init(unsigned) {
  return call("cuInit", Needs::kNothing, [](Machine& all, Machine::Lock&, ContextState*) {
    if (all.settings.init != Code::kSuccess) return all.settings.init;
    if (all.settings.devices == 0) return Code::kNoDevice;
    all.initialized = true;
    all.process = ::getpid();
    return Code::kSuccess;
  });
}

Code get_error_name(Code code, const char** name) {
  return error_text(code, name, &ErrorText::name);
}

Code get_error_string(Code code, const char** text) {
  return error_text(code, text, &ErrorText::text);
}

Code device_get_count(int* count) {
  return call("cuDeviceGetCount", Needs::kInit, [&](Machine& all, Machine::Lock&, ContextState*) {
    *count = all.settings.devices;
    return Code::kSuccess;
  });
}

Code device_get(Device* device, int ordinal) {
  return device_call("cuDeviceGet", ordinal, [&](Machine&, Machine::Lock&) {
    *device = ordinal;
    return Code::kSuccess;
  });
}

Code device_get_attribute(int* value, Attribute attribute, Device device) {
  return device_call("cuDeviceGetAttribute", device, [&](Machine& all, Machine::Lock&) {
    *value = attribute_value(all.settings, attribute, device);
    return Code::kSuccess;
  });
}

Code primary_ctx_retain(Context* context, Device device) {
  return device_call("cuDevicePrimaryCtxRetain", device, [&](Machine& all, Machine::Lock&) {
    auto& entry = all.contexts[static_cast<std::size_t>(device)];
    if (entry == nullptr) {
      entry = std::make_unique<ContextState>(all, device, all.make_handle<Context>());
    }
    ++entry->retained;
    *context = entry->handle;
    return Code::kSuccess;
  });
}

Code primary_ctx_release(Device device) {
  constexpr const char* kName = "cuDevicePrimaryCtxRelease";
  return device_call(kName, device, [&](Machine& all, Machine::Lock& lock) {
    auto& entry = all.contexts[static_cast<std::size_t>(device)];
    if (entry == nullptr) {
      all.misuse(std::string(kName) + " of a context that is not retained");
      return Code::kInvalidContext;
    }
    if (--entry->retained > 0) return Code::kSuccess;
    // The queues of a broken context drop their work one by one.
    if (entry->broken == Code::kSuccess && !entry->pending().empty()) {
      all.misuse(std::string(kName) + " destroys a context that has work");
    }
    all.destroy(lock, *entry);
    return Code::kSuccess;
  });
}

Code ctx_push_current(Context context) {
  return call("cuCtxPushCurrent", Needs::kInit, [&](Machine& all, Machine::Lock&, ContextState*) {
    if (all.context(context) == nullptr) {
      all.misuse("cuCtxPushCurrent of what is no context: " + text_of(context));
      return Code::kInvalidContext;
    }
    current_contexts().push_back(context);
    return Code::kSuccess;
  });
}

Code ctx_pop_current(Context* context) {
  return call("cuCtxPopCurrent", Needs::kInit, [&](Machine& all, Machine::Lock&, ContextState*) {
    auto& stack = current_contexts();
    if (stack.empty()) {
      all.misuse("cuCtxPopCurrent without a current context");
      return Code::kInvalidContext;
    }
    if (context != nullptr) *context = stack.back();
    stack.pop_back();
    return Code::kSuccess;
  });
}

Code ctx_get_current(Context* context) {
  return call("cuCtxGetCurrent", Needs::kInit, [&](Machine&, Machine::Lock&, ContextState*) {
    const auto& stack = current_contexts();
    *context = stack.empty() ? nullptr : stack.back();
    return Code::kSuccess;
  });
}

Code ctx_get_device(Device* device) {
  return call("cuCtxGetDevice", Needs::kContext,
              [&](Machine&, Machine::Lock&, ContextState* current) {
                *device = current->device;
                return Code::kSuccess;
              });
}

Code ctx_synchronize() {
  return call("cuCtxSynchronize", Needs::kContext,
              [&](Machine& all, Machine::Lock& lock, ContextState* current) {
                const Code code = allow_context_wait(all, *current);
                if (code != Code::kSuccess) return code;
                ++all.ledger.counters.host_synchronizations;
                drain(all, lock, *current);
                return current->broken;
              });
}

}  // namespace tally::test::cuda::exported
