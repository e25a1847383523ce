// The exported functions of copies, and kernels.
#include <cstring>
#include <thread>
#include <utility>

#include "tests/support/cuda/enqueue.h"
#include "tests/support/cuda/entry.h"
#include "tests/support/cuda/exports.h"

namespace tally::test::cuda {
namespace {

constexpr auto kSlice =
    std::chrono::milliseconds(1);  // the longest sleep between two checks for a cancellation
constexpr std::size_t kWordBytes = sizeof(std::uint32_t);

// A direction of copies.
struct Direction {
  const char* name;
  std::uint64_t Settings::*bandwidth;
  std::uint64_t Counters::*bytes;
  bool ContextState::*busy;  // its copy engine; null: it needs none
};
constexpr Direction kDown{"copy to the host", &Settings::bandwidth_down, &Counters::bytes_down,
                          &ContextState::down_busy};
constexpr Direction kUp{"copy to the device", &Settings::bandwidth_up, &Counters::bytes_up,
                        &ContextState::up_busy};
constexpr Direction kBetween{"copy on the device", &Settings::bandwidth_between,
                             &Counters::bytes_between, nullptr};

// Copies on the thread of a queue, in the time that the bandwidth allows.
Code transfer(ContextState& context, const Direction& direction, void* to, const void* from,
              std::size_t bytes, const Operation& operation) {
  Machine& all = context.machine;
  Machine::Lock lock(all.mutex);
  if (direction.busy != nullptr) {
    all.changed.wait(lock, [&] { return operation.cancelled || !(context.*direction.busy); });
    if (operation.cancelled) return Code::kSuccess;
    context.*direction.busy = true;
  }
  const std::uint64_t bandwidth = all.settings.*direction.bandwidth;
  const auto begin = Clock::now();
  lock.unlock();
  std::memmove(to, from, bytes);
  if (bandwidth != 0) {
    const auto end =
        begin + std::chrono::nanoseconds(static_cast<std::int64_t>(
                    static_cast<double>(bytes) * 1e9 / static_cast<double>(bandwidth)));
    for (auto now = Clock::now(); now < end && !operation.cancelled; now = Clock::now()) {
      std::this_thread::sleep_for(std::min<Clock::duration>(end - now, kSlice));
    }
  }
  lock.lock();
  all.ledger.counters.*direction.bytes += bytes;
  if (direction.busy != nullptr) context.*direction.busy = false;
  all.changed.notify_all();
  return Code::kSuccess;
}

// One end of a copy.
struct End {
  Pointer pointer;
  bool on_device;
  std::byte* view = nullptr;  // set by check()
  bool pageable = false;      // host memory that is not registered
};

Code check(Machine& machine, const char* function, End& end, std::size_t bytes) {
  const Device device = machine.device_of(end.pointer);
  const auto refuse = [&](const char* why) {
    machine.misuse(std::string(function) + " with " + text_of(end.pointer) + ", which " + why);
    return Code::kInvalidValue;
  };
  if (end.on_device != (device >= 0)) {
    return refuse(end.on_device ? "is not device memory" : "is device memory");
  }
  if (end.on_device) {
    end.view = machine.view(end.pointer, bytes);
    if (end.view == nullptr) return refuse("is freed, or shorter than the copy");
    return Code::kSuccess;
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  end.view = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(end.pointer));
  end.pageable = !machine.host.contains(end.pointer, bytes);
  if (end.pageable && machine.host.touches(end.pointer, bytes)) {
    return refuse("is registered only in part");
  }
  return Code::kSuccess;
}

Code copy(const char* function, const Direction& direction, End to, End from, std::size_t bytes,
          Stream handle) {
  return stream_call(function, handle, [&](Machine& all, Machine::Lock& lock, StreamState& stream) {
    if (bytes == 0) return Code::kSuccess;
    if (const Code code = check(all, function, to, bytes); code != Code::kSuccess) return code;
    if (const Code code = check(all, function, from, bytes); code != Code::kSuccess) return code;
    Work work{std::string(direction.name) + " of " + std::to_string(bytes) + " bytes"};
    for (const End& end : {to, from}) {
      const Pointer address = end.on_device ? end.pointer : all.device_address(end.view);
      if (!end.pageable) work.uses.push_back({address, bytes});
    }
    ContextState* const context = stream.context;
    work.run = [=, &direction](const Operation& operation) {
      return transfer(*context, direction, to.view, from.view, bytes, operation);
    };
    OperationPtr made;
    const Code code = enqueue(all, stream, std::move(work), &made);
    if (code != Code::kSuccess || made == nullptr || !(to.pageable || from.pageable)) return code;
    ++all.ledger.counters.pageable_copies;
    ++all.ledger.counters.host_synchronizations;
    all.await(lock, made);
    return context->broken;
  });
}

Pointer host_pointer(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

}  // namespace

Code launch(Stream handle, std::function<void()> kernel) {
  return stream_call("launch", handle, [&](Machine& all, Machine::Lock&, StreamState& stream) {
    Work work{"kernel"};
    work.run = [kernel = std::move(kernel)](const Operation&) {
      try {
        kernel();
      } catch (...) {
        return Code::kLaunchFailed;
      }
      return Code::kSuccess;
    };
    return enqueue(all, stream, std::move(work));
  });
}

namespace exported {

Code memcpy_dtoh_async(void* to, Pointer from, std::size_t bytes, Stream stream) {
  return copy("cuMemcpyDtoHAsync", kDown, {host_pointer(to), false}, {from, true}, bytes, stream);
}

Code memcpy_htod_async(Pointer to, const void* from, std::size_t bytes, Stream stream) {
  return copy("cuMemcpyHtoDAsync", kUp, {to, true}, {host_pointer(from), false}, bytes, stream);
}

Code memcpy_dtod_async(Pointer to, Pointer from, std::size_t bytes, Stream stream) {
  return copy("cuMemcpyDtoDAsync", kBetween, {to, true}, {from, true}, bytes, stream);
}

Code memset_d32_async(Pointer to, unsigned value, std::size_t words, Stream handle) {
  constexpr const char* kName = "cuMemsetD32Async";
  return stream_call(kName, handle, [&](Machine& all, Machine::Lock&, StreamState& stream) {
    if (to % kWordBytes != 0) return Code::kInvalidValue;
    End end{to, true};
    const std::size_t bytes = words * kWordBytes;
    if (const Code code = check(all, kName, end, bytes); code != Code::kSuccess) return code;
    Work work{"memset of " + std::to_string(bytes) + " bytes", {{to, bytes}}};
    work.run = [view = end.view, value, words](const Operation&) {
      for (std::size_t i = 0; i < words; ++i) std::memcpy(view + i * 4, &value, sizeof value);
      return Code::kSuccess;
    };
    return enqueue(all, stream, std::move(work));
  });
}

}  // namespace exported
}  // namespace tally::test::cuda
