// The streams on which a group's collectives of device tensors run, and the buffers in device
// memory that its nodes use. A collective copies its tensors into a buffer and out of it, on the
// device, in the order of a stream.
//
// Why buffers, and not the tensors' own memory: what a node uses must be registered, and the copy
// of a registration in pinned host memory is as large. So buffers bound the pinned memory by
// kStreams * kLargestBuffer (and the smaller buffers), whatever the model. No registration can
// outlive its memory, because the memory belongs to the registration and not to torch's allocator.
// The price is one read and one write of device memory in each direction, beside the way over the
// bus, which takes more than ten times as long.
#pragma once

#include <c10/core/Stream.h>

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "gpu_bridge/cuda_api/driver.h"
#include "integrations/python/src/communicator.h"

namespace tally::python {

struct CommStream {
  c10::Stream stream;
  void* native;                                            // its CUstream
  std::map<std::size_t, std::shared_ptr<void>> buffers{};  // key: bytes
};

// Calls of this thread do not end captures into CUDA graphs: buffers can be made during one.
class AllowedCalls {
 public:
  explicit AllowedCalls(c10::Device device);  // throws Failure
  ~AllowedCalls();
  AllowedCalls(const AllowedCalls&) = delete;
  AllowedCalls& operator=(const AllowedCalls&) = delete;

 private:
  unsigned mode_;  // of captures, as CUDA counts them
};

// Of one device. One thread at a time.
class CommStreams {
 public:
  // So many parts of collectives are under way at once: while a node sums one, others are copied. A
  // stream that waits for a node holds up a hardware queue, of which a device has eight by default.
  static constexpr std::size_t kStreams = 4;
  static constexpr std::size_t kLargestBuffer = std::size_t{32} << 20;

  // Throws Failure when the device is none of CUDA's.
  CommStreams(std::shared_ptr<Communicator> communicator, c10::Device device);

  // Whether the stream is being captured into a CUDA graph. Throws Failure.
  static bool is_capturing(const c10::Stream& stream);

  cuda::Context context() const { return context_; }

  // The streams in turn. All ranks take them in the same order.
  CommStream& next();
  // Returns a buffer of at least `bytes`, which are at most kLargestBuffer. The work that uses it
  // must be enqueued on the stream. Throws Failure.
  void* buffer(CommStream& stream, std::size_t bytes);
  // The size of the buffer.
  static std::size_t buffer_bytes(std::size_t bytes);
  // Returns a buffer for an operation of a graph, whose launches may come while other work uses the
  // streams. It stays until the session ends. `native` is a stream of the device.
  void* buffer_of_graph(void* native, std::size_t bytes);

 private:
  std::shared_ptr<void> new_buffer(void* native, std::size_t bytes);

  std::shared_ptr<Communicator> communicator_;
  cuda::Context context_ = nullptr;
  std::vector<CommStream> streams_;
  std::vector<std::shared_ptr<void>> of_graphs_;  // buffers
  std::size_t next_ = 0;
};

}  // namespace tally::python
