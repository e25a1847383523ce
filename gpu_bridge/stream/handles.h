// Owners of streams and events.
#pragma once

#include <utility>

#include "base/result.h"
#include "gpu_bridge/cuda_api/driver.h"

namespace tally::gpu {

// Owns a T of the driver. It ends with the context that it was made in.
template <typename T, auto cuda::Driver::*Destroy>
class Handle {
 public:
  Handle() = default;
  Handle(const cuda::Driver& driver, cuda::Context context, T handle)
      : driver_(&driver), context_(context), handle_(handle) {}
  Handle(Handle&& other) noexcept { swap(other); }
  Handle& operator=(Handle&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Handle() {
    if (handle_ == T{}) return;
    const cuda::CurrentContext current(*driver_, context_);
    (driver_->*Destroy)(handle_);
  }

  T get() const { return handle_; }

 private:
  void swap(Handle& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(context_, other.context_);
    std::swap(handle_, other.handle_);
  }

  const cuda::Driver* driver_ = nullptr;
  cuda::Context context_ = nullptr;
  T handle_ = {};
};

using OwnedStream = Handle<cuda::Stream, &cuda::Driver::stream_destroy>;
using OwnedEvent = Handle<cuda::Event, &cuda::Driver::event_destroy>;

// A stream that does not wait for the default stream, nor the other way round.
inline Result<OwnedStream> make_stream(const cuda::Driver& driver, cuda::Context context) {
  const cuda::CurrentContext current(driver, context);
  cuda::Stream stream = nullptr;
  const auto code = driver.stream_create(&stream, cuda::kStreamNonBlocking);
  if (code != cuda::Code::kSuccess) return cuda::failure(driver, "cuStreamCreate", code);
  return OwnedStream(driver, context, stream);
}

inline Result<OwnedEvent> make_event(const cuda::Driver& driver, cuda::Context context) {
  const cuda::CurrentContext current(driver, context);
  cuda::Event event = nullptr;
  const auto code = driver.event_create(&event, cuda::kEventDisableTiming);
  if (code != cuda::Code::kSuccess) return cuda::failure(driver, "cuEventCreate", code);
  return OwnedEvent(driver, context, event);
}

}  // namespace tally::gpu
