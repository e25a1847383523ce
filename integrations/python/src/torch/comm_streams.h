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

#include "integrations/python/src/communicator.h"

namespace tally::python {

struct CommStream {
  c10::Stream stream;
  void* native;                                            // its CUstream
  std::map<std::size_t, std::shared_ptr<void>> buffers{};  // key: bytes
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

  // Throws Failure when the stream is being captured into a graph: the operations of a graph have
  // no completions, and the works of torch need them.
  static void require_no_capture(const c10::Stream& stream);

  // The streams in turn. All ranks take them in the same order.
  CommStream& next();
  // Returns a buffer of at least `bytes`, which are at most kLargestBuffer. The work that uses it
  // must be enqueued on the stream. Throws Failure.
  void* buffer(CommStream& stream, std::size_t bytes);

 private:
  std::shared_ptr<Communicator> communicator_;
  std::vector<CommStream> streams_;
  std::size_t next_ = 0;
};

}  // namespace tally::python
