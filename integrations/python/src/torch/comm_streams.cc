#include "integrations/python/src/torch/comm_streams.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <string>

#include "gpu_bridge/cuda_api/driver.h"

namespace tally::python {
namespace {

// A buffer has one of these sizes, so that few registrations serve all collectives.
constexpr std::array<std::size_t, 3> kBufferSizes{std::size_t{1} << 20, std::size_t{8} << 20,
                                                  CommStreams::kLargestBuffer};

// Memory of CUDA itself, because one allocation of it has the whole buffer. Torch's allocator may
// make a block of several (expandable_segments).
class DeviceBuffer {
 public:
  DeviceBuffer(const cuda::Driver& driver, cuda::Stream stream, std::size_t bytes)
      : driver_(driver) {
    require("cuStreamGetCtx", driver.stream_get_ctx(stream, &context_));
    const cuda::CurrentContext current(driver, context_);
    require("cuMemAlloc", driver.mem_alloc(&data_, bytes));
  }
  ~DeviceBuffer() {
    const cuda::CurrentContext current(driver_, context_);
    driver_.mem_free(data_);
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  void* data() const { return reinterpret_cast<void*>(data_); }

 private:
  void require(const char* call, cuda::Code code) const {
    if (code == cuda::Code::kSuccess) return;
    throw Failure(TALLY_NO_MEMORY,
                  "a buffer on the device: " + cuda::failure(driver_, call, code).message);
  }

  const cuda::Driver& driver_;
  cuda::Context context_ = nullptr;
  cuda::Pointer data_ = 0;
};

const cuda::Driver& driver_for(c10::Device device) {
  const auto opened = cuda::system_driver();
  if (!opened) {
    throw Failure(TALLY_UNSUPPORTED, "tensors on " + device.str() +
                                         ": the backend takes those of CPUs and of CUDA devices; " +
                                         opened.error().message);
  }
  return **opened;
}

}  // namespace

CommStreams::CommStreams(std::shared_ptr<Communicator> communicator, c10::Device device)
    : communicator_(std::move(communicator)) {
  driver_for(device);
  const c10::impl::VirtualGuardImpl guard(device.type());
  for (std::size_t i = 0; i < kStreams; ++i) {
    const c10::Stream stream = guard.getStreamFromGlobalPool(device, true);
    streams_.push_back({stream, guard.getStreamNativeHandle(stream)});
  }
}

void CommStreams::require_no_capture(const c10::Stream& stream) {
  const c10::impl::VirtualGuardImpl guard(stream.device_type());
  auto* const native = static_cast<cuda::Stream>(guard.getStreamNativeHandle(stream));
  unsigned status = cuda::kCaptureNone;
  if (driver_for(stream.device()).stream_is_capturing(native, &status) == cuda::Code::kSuccess &&
      status == cuda::kCaptureNone) {
    return;
  }
  throw Failure(TALLY_UNSUPPORTED,
                "the current stream is being captured: call collectives outside of CUDA graphs");
}

CommStream& CommStreams::next() {
  return streams_[next_++ % kStreams];
}

void* CommStreams::buffer(CommStream& stream, std::size_t bytes) {
  std::size_t size = kBufferSizes.front();
  for (const std::size_t one : kBufferSizes) {
    size = one;
    if (bytes <= one) break;
  }
  // Both own the memory, because work of the stream may go on after the session has ended.
  std::shared_ptr<void>& buffer = stream.buffers[size];
  if (buffer == nullptr) {
    const auto made = std::make_shared<DeviceBuffer>(
        *cuda::system_driver().value(), static_cast<cuda::Stream>(stream.native), size);
    communicator_->add_device_memory(made->data(), size, made);
    buffer = std::shared_ptr<void>(made, made->data());
  }
  return buffer.get();
}

}  // namespace tally::python
