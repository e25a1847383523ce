// Streams and events: what c10's device guard asks of a device.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "integrations/python/tests/device/device.h"

namespace tally::torch_device {
namespace {

thread_local c10::StreamId current_id = 0;
thread_local int current_ordinal = 0;

// Retained for the life of the process.
cuda::Context primary_context(const cuda::Driver& driver, int ordinal) {
  static std::mutex mutex;
  static std::map<int, cuda::Context> contexts;
  const std::lock_guard lock(mutex);
  cuda::Context& context = contexts[ordinal];
  if (context == nullptr) {
    cuda::Device device = 0;
    check("cuDeviceGet", driver.device_get(&device, ordinal));
    check("cuDevicePrimaryCtxRetain", driver.primary_ctx_retain(&context, device));
  }
  return context;
}

c10::Stream new_stream() {
  cuda::Stream made = nullptr;
  check("cuStreamCreate", driver().stream_create(&made, cuda::kStreamNonBlocking));
  return c10::Stream(c10::Stream::UNSAFE, kDevice, reinterpret_cast<c10::StreamId>(made));
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  c10::Stream getStream(c10::Device) const override { return current_stream(); }
  c10::Stream getDefaultStream(c10::Device) const override {
    return c10::Stream(c10::Stream::DEFAULT, kDevice);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override {
    static std::mutex mutex;
    static std::map<int, std::vector<c10::Stream>> pools;  // by ordinal
    static std::size_t next = 0;
    const std::lock_guard lock(mutex);
    auto& pool = pools[current_ordinal];
    while (pool.size() < 4) pool.push_back(new_stream());
    return pool[next++ % pool.size()];
  }
  c10::Stream getNewStream(c10::Device, int) const override { return new_stream(); }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = current_stream();
    current_id = stream.id();
    return before;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return native(stream); }
  bool queryStream(const c10::Stream& stream) const override {
    return driver().stream_query(native(stream)) == cuda::Code::kSuccess;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    check("cuStreamSynchronize", driver().stream_synchronize(native(stream)));
  }
  void synchronizeDevice(c10::DeviceIndex) const override {
    check("cuCtxSynchronize", driver().ctx_synchronize());
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    record_stream(data, stream);
  }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex,
              c10::EventFlag) const override {
    auto* made = static_cast<cuda::Event>(*event);
    if (made == nullptr) {
      check("cuEventCreate", driver().event_create(&made, cuda::kEventDisableTiming));
      *event = made;
    }
    check("cuEventRecord", driver().event_record(made, native(stream)));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    check("cuStreamWaitEvent",
          driver().stream_wait_event(native(stream), static_cast<cuda::Event>(event), 0));
  }
  bool queryEvent(void* event) const override {
    return event == nullptr ||
           driver().event_query(static_cast<cuda::Event>(event)) == cuda::Code::kSuccess;
  }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr) return;
    check("cuEventSynchronize", driver().event_synchronize(static_cast<cuda::Event>(event)));
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    if (event != nullptr) driver().event_destroy(static_cast<cuda::Event>(event));
  }
};

}  // namespace

const cuda::Driver& driver() {
  static const cuda::Driver& opened = [&]() -> const cuda::Driver& {
    const auto found = cuda::system_driver();
    if (!found) throw std::runtime_error(found.error().message);
    return **found;
  }();
  thread_local bool has_context = false;
  if (!has_context) {
    has_context = true;
    check("cuCtxPushCurrent", opened.ctx_push_current(primary_context(opened, current_ordinal)));
  }
  return opened;
}

void use_ordinal(int ordinal) {
  current_ordinal = ordinal;
}

int ordinal() {
  return current_ordinal;
}

cuda::Context context_of(int ordinal) {
  return primary_context(driver(), ordinal);
}

void check(const char* call, cuda::Code code) {
  if (code == cuda::Code::kSuccess) return;
  throw std::runtime_error(std::string(call) + ": error " +
                           std::to_string(static_cast<unsigned>(code)));
}

c10::Stream current_stream() {
  return c10::Stream(c10::Stream::UNSAFE, kDevice, current_id);
}

void register_guard() {
  static const c10::impl::DeviceGuardImplRegistrar registrar(kType, new Guard);
}

}  // namespace tally::torch_device
