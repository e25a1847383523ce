// The extension module `_torch_device`, of which torch_device.py makes the device.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <torch/extension.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "integrations/python/tests/device/device.h"
#include "tests/support/cuda/cuda_process.h"

namespace tally::torch_device {
namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  at::Device getDeviceFromPtr(void*) const override { return kDevice; }
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(allocator().allocate(bytes));
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);
  }
};

// Holds a stream up, as a kernel that takes long.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    opened_.wait_for(lock, std::chrono::seconds(20), [&] { return open_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

// The current stream waits for the gate.
std::shared_ptr<Gate> close_gate() {
  driver();
  auto gate = std::make_shared<Gate>();
  check("a kernel", test::cuda::launch(native(current_stream()), [gate] { gate->pass(); }));
  return gate;
}

}  // namespace
}  // namespace tally::torch_device

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  using namespace tally::torch_device;
  static auto* const hooks = new Hooks;
  register_guard();
  at::RegisterPrivateUse1HooksInterface(hooks);
  c10::SetAllocator(kType, &allocator());
  pybind11::class_<Gate, std::shared_ptr<Gate>>(module, "Gate").def("open", &Gate::open);
  module.def("use_ordinal", &use_ordinal);
  module.def("close_gate", &close_gate);
  module.def("empty_cache", &empty_cache, pybind11::call_guard<pybind11::gil_scoped_release>());
}
