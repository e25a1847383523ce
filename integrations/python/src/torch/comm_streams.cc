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
  const cuda::Driver& driver = driver_for(device);
  const c10::impl::VirtualGuardImpl guard(device.type());
  for (std::size_t i = 0; i < kStreams; ++i) {
    const c10::Stream stream = guard.getStreamFromGlobalPool(device, true);
    streams_.push_back({stream, guard.getStreamNativeHandle(stream)});
  }
  const auto code =
      driver.stream_get_ctx(static_cast<cuda::Stream>(streams_.front().native), &context_);
  if (code != cuda::Code::kSuccess) {
    throw Failure(TALLY_INTERNAL, cuda::failure(driver, "cuStreamGetCtx", code).message);
  }
}

AllowedCalls::AllowedCalls(c10::Device device) : mode_(cuda::kCaptureModeRelaxed) {
  driver_for(device).thread_exchange_stream_capture_mode(&mode_);
}

AllowedCalls::~AllowedCalls() {
  cuda::system_driver().value()->thread_exchange_stream_capture_mode(&mode_);
}

bool CommStreams::is_capturing(const c10::Stream& stream) {
  const c10::impl::VirtualGuardImpl guard(stream.device_type());
  auto* const native = static_cast<cuda::Stream>(guard.getStreamNativeHandle(stream));
  const cuda::Driver& driver = driver_for(stream.device());
  unsigned status = cuda::kCaptureNone;
  const cuda::Code code = driver.stream_is_capturing(native, &status);
  if (code == cuda::Code::kSuccess && status != cuda::kCaptureInvalidated) {
    return status != cuda::kCaptureNone;
  }
  throw Failure(TALLY_UNSUPPORTED,
                code == cuda::Code::kSuccess
                    ? "the capture of the current stream into a CUDA graph has failed before"
                    : cuda::failure(driver, "cuStreamIsCapturing", code).message);
}

CommStream& CommStreams::next() {
  return streams_[next_++ % kStreams];
}

std::size_t CommStreams::buffer_bytes(std::size_t bytes) {
  for (const std::size_t size : kBufferSizes) {
    if (bytes <= size) return size;
  }
  return kBufferSizes.back();
}

void* CommStreams::buffer(CommStream& stream, std::size_t bytes) {
  const std::size_t size = buffer_bytes(bytes);
  std::shared_ptr<void>& buffer = stream.buffers[size];
  if (buffer == nullptr) buffer = new_buffer(stream.native, size);
  return buffer.get();
}

void* CommStreams::buffer_of_graph(void* native, std::size_t bytes) {
  of_graphs_.push_back(new_buffer(native, bytes));
  return of_graphs_.back().get();
}

// The session and this object own the memory, because work of the stream may go on after the
// session has ended.
std::shared_ptr<void> CommStreams::new_buffer(void* native, std::size_t bytes) {
  const auto made = std::make_shared<DeviceBuffer>(*cuda::system_driver().value(),
                                                   static_cast<cuda::Stream>(native), bytes);
  communicator_->add_device_memory(made->data(), bytes, made);
  return {made, made->data()};
}

}  // namespace tally::python
