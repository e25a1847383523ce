// The exported functions of memory, except copies.
#include "tests/support/cuda/enqueue.h"
#include "tests/support/cuda/entry.h"
#include "tests/support/cuda/exports.h"

namespace tally::test::cuda::exported {
namespace {

constexpr std::size_t kDmaBufUnit = 65536;

DeviceMemory& memory_of(Machine& machine, Device device) {
  return *machine.memory[static_cast<std::size_t>(device)];
}

// Reports work in progress that uses registered memory.
void report_users(Machine& machine, const HostMemory::Range& range) {
  for (const auto& context : machine.contexts) {
    if (context == nullptr) continue;
    for (const OperationPtr& operation : context->pending()) {
      for (const Use& use : operation->work.uses) {
        const Pointer begin = machine.host_address(use.begin);
        if (begin >= range.begin + range.bytes || begin + use.bytes <= range.begin) continue;
        machine.misuse("cuMemHostUnregister of " + text_of(range.begin) + ", which " +
                       operation->work.what + " uses");
        return;
      }
    }
  }
}

// CUDA's description of a pointer: a part of device memory, or of registered memory.
struct Known {
  Context context;
  unsigned type;
  std::uint64_t buffer;
  Device device;
  Pointer begin;
  std::size_t bytes;
};

bool known_of(Machine& machine, Pointer pointer, Known& known) {
  const Device device = machine.device_of(pointer);
  if (device >= 0) {
    const auto* found = memory_of(machine, device).find(pointer);
    if (found == nullptr) return false;
    const auto& context = machine.contexts[static_cast<std::size_t>(device)];
    known = {context != nullptr ? context->handle : nullptr,
             tally::cuda::kMemoryTypeDevice,
             found->id,
             device,
             found->begin,
             found->bytes};
    return true;
  }
  const auto* found = machine.host.find(machine.host_address(pointer));
  if (found == nullptr) return false;
  const ContextState* const context = machine.context(found->context);
  known = {found->context, tally::cuda::kMemoryTypeHost,
           found->begin,   context != nullptr ? context->device : 0,
           found->begin,   found->bytes};
  return true;
}

}  // namespace

Code pointer_get_attribute(void* value, PointerAttribute attribute, Pointer pointer) {
  return call("cuPointerGetAttribute", Needs::kInit,
              [&](Machine& all, Machine::Lock&, ContextState*) {
                Known known;
                if (!known_of(all, pointer, known)) return Code::kInvalidValue;
                switch (attribute) {
                  case PointerAttribute::kContext:
                    *static_cast<Context*>(value) = known.context;
                    return Code::kSuccess;
                  case PointerAttribute::kMemoryType:
                    *static_cast<unsigned*>(value) = known.type;
                    return Code::kSuccess;
                  case PointerAttribute::kBufferId:
                    *static_cast<unsigned long long*>(value) = known.buffer;
                    return Code::kSuccess;
                  case PointerAttribute::kDeviceOrdinal:
                    *static_cast<int*>(value) = known.device;
                    return Code::kSuccess;
                  case PointerAttribute::kRangeStart:
                    *static_cast<Pointer*>(value) = known.begin;
                    return Code::kSuccess;
                  case PointerAttribute::kRangeSize:
                    *static_cast<std::size_t*>(value) = known.bytes;
                    return Code::kSuccess;
                }
                return Code::kInvalidValue;
              });
}

Code mem_alloc(Pointer* pointer, std::size_t bytes) {
  return call("cuMemAlloc", Needs::kContext,
              [&](Machine& all, Machine::Lock& lock, ContextState* current) {
                if (const Code code = allow_unsafe_call(all); code != Code::kSuccess) return code;
                if (bytes == 0) return Code::kInvalidValue;
                ++all.ledger.counters.host_synchronizations;
                if (all.settings.allocation_synchronizes) drain(all, lock, *current);
                const Pointer at = memory_of(all, current->device).allocate(bytes, all.next_buffer);
                if (at == 0) return Code::kOutOfMemory;
                ++all.next_buffer;
                ++all.ledger.counters.allocations;
                *pointer = at;
                return Code::kSuccess;
              });
}

Code mem_free(Pointer pointer) {
  return call("cuMemFree", Needs::kContext, [&](Machine& all, Machine::Lock& lock, ContextState*) {
    if (const Code code = allow_unsafe_call(all); code != Code::kSuccess) return code;
    const Device device = all.device_of(pointer);
    const auto* found = device < 0 ? nullptr : memory_of(all, device).find(pointer);
    if (found == nullptr || found->begin != pointer) {
      all.misuse("cuMemFree of " + text_of(pointer) + ", where no memory begins");
      return Code::kInvalidValue;
    }
    ++all.ledger.counters.host_synchronizations;
    const auto& owner = all.contexts[static_cast<std::size_t>(device)];
    if (owner != nullptr) drain(all, lock, *owner);
    memory_of(all, device).free(pointer);
    return Code::kSuccess;
  });
}

Code mem_host_register(void* data, std::size_t bytes, unsigned) {
  return call("cuMemHostRegister", Needs::kContext,
              [&](Machine& all, Machine::Lock& lock, ContextState* current) {
                if (const Code code = allow_unsafe_call(all); code != Code::kSuccess) return code;
                if (all.settings.registration_synchronizes) drain(all, lock, *current);
                const Pointer begin = reinterpret_cast<std::uintptr_t>(data);
                if (data == nullptr || bytes == 0) return Code::kInvalidValue;
                if (all.device_of(begin) >= 0 || !is_mapped(data, bytes)) {
                  all.misuse("cuMemHostRegister of " + text_of(data) + ", which is not mapped");
                  return Code::kInvalidValue;
                }
                if (!all.host.add(begin, bytes, current->handle)) {
                  return Code::kHostMemoryAlreadyRegistered;
                }
                return Code::kSuccess;
              });
}

Code mem_host_unregister(void* data) {
  return call("cuMemHostUnregister", Needs::kContext,
              [&](Machine& all, Machine::Lock& lock, ContextState* current) {
                if (const Code code = allow_unsafe_call(all); code != Code::kSuccess) return code;
                if (all.settings.registration_synchronizes) drain(all, lock, *current);
                const auto* found = all.host.at(reinterpret_cast<std::uintptr_t>(data));
                if (found == nullptr) {
                  all.misuse("cuMemHostUnregister of " + text_of(data) +
                             ", where no registered memory begins");
                  return Code::kHostMemoryNotRegistered;
                }
                report_users(all, *found);
                all.host.remove(found->begin);
                return Code::kSuccess;
              });
}

Code mem_host_get_device_pointer(Pointer* pointer, void* data, unsigned) {
  return call(
      "cuMemHostGetDevicePointer", Needs::kContext,
      [&](Machine& all, Machine::Lock&, ContextState*) {
        if (all.host.find(reinterpret_cast<std::uintptr_t>(data)) == nullptr) {
          all.misuse("cuMemHostGetDevicePointer of " + text_of(data) + ", which is not registered");
          return Code::kInvalidValue;
        }
        *pointer = all.device_address(data);
        return Code::kSuccess;
      });
}

Code mem_get_handle_for_address_range(void* handle, Pointer pointer, std::size_t bytes,
                                      unsigned type, unsigned long long) {
  return call("cuMemGetHandleForAddressRange", Needs::kInit,
              [&](Machine& all, Machine::Lock&, ContextState*) {
                if (!all.settings.dma_buf) return Code::kNotSupported;
                const Device device = all.device_of(pointer);
                if (type != tally::cuda::kRangeHandleDmaBuf || device < 0 || bytes == 0 ||
                    pointer % kDmaBufUnit != 0 || bytes % kDmaBufUnit != 0) {
                  return Code::kInvalidValue;
                }
                const int fd = memory_of(all, device).export_range(pointer, bytes);
                if (fd < 0) return Code::kInvalidValue;
                *static_cast<int*>(handle) = fd;
                return Code::kSuccess;
              });
}

Code flush_gpu_direct_rdma_writes(unsigned target, unsigned scope) {
  return call("cuFlushGPUDirectRDMAWrites", Needs::kContext,
              [&](Machine&, Machine::Lock&, ContextState*) {
                const bool known = target == tally::cuda::kFlushTargetCurrentContext &&
                                   (scope == tally::cuda::kFlushScopeOwner || scope == 200);
                return known ? Code::kSuccess : Code::kInvalidValue;
              });
}

}  // namespace tally::test::cuda::exported
