// Transfers between device tensors and a node: what a collective of device tensors is made of.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>

#include <optional>
#include <vector>

#include "integrations/python/src/machine/reducer.h"
#include "integrations/python/src/torch/comm_streams.h"
#include "integrations/python/src/torch/device_work.h"

namespace tally::python {

// An operation on a matrix with a row for each rank (all-gather, reduce-scatter) or one row.
struct Transfer {
  struct Part {  // of the matrix: the rows from `row` on
    std::int64_t row;
    at::Tensor tensor;  // two-dimensional
  };
  Request request{};                // its kind, type, operation and options
  bool moves = false;               // the node counts bytes, and not elements
  at::ScalarType wire = at::kByte;  // of the elements on their way
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  std::vector<Part> inputs{};
  std::vector<Part> outputs{};

  std::int64_t bytes_of_element() const {
    return static_cast<std::int64_t>(c10::elementSize(wire));
  }
};

// The transfers of one call. A large matrix is cut by columns into pieces. Each piece is an
// operation of the node, and has the next of the communication streams. The caller holds a lock on
// the streams for the life of the object.
//
// While the current stream is being captured into a CUDA graph, a matrix is one operation of the
// graph, on that stream and with a buffer of its own. Rounds of it that fail are failures of the
// group, and have no part in the work.
class DeviceTransfers {
 public:
  // All of it follows what the current stream of `device` has now. `machine` may be null. Throws
  // Failure.
  DeviceTransfers(Communicator& communicator, CommStreams& streams, MachineReducer* machine,
                  c10::Device device);

  // Enqueues the copies and posts the operations, which are `work`'s. Throws Failure; pieces may be
  // under way then.
  void enqueue(const Transfer& transfer, const c10::intrusive_ptr<DeviceWork>& work);
  // Returns a stream that waits for all of it.
  c10::Stream join() const;
  bool in_graph() const { return in_graph_; }
  // Bytes that were copied between tensors and buffers.
  std::uint64_t copied_bytes() const { return copied_bytes_; }

 private:
  CommStream& next_stream();
  void enqueue_piece(const Transfer& transfer, std::int64_t first, std::int64_t count,
                     bool by_machine, const c10::intrusive_ptr<DeviceWork>& work);
  void enqueue_in_graph(const Transfer& transfer, const c10::intrusive_ptr<DeviceWork>& work);
  // Copies the inputs into the buffer, calls `post`, and copies the outputs out of it.
  template <typename Post>
  void exchange(const Transfer& transfer, std::int64_t first, std::int64_t count, void* buffer,
                Post post);
  Request request_of(const Transfer& transfer, std::int64_t columns, std::byte* buffer) const;

  Communicator& communicator_;
  CommStreams& streams_;
  MachineReducer* machine_;
  c10::Device device_;
  c10::Stream current_;
  const bool in_graph_;
  c10::Event begin_;  // of current_
  std::vector<c10::Stream> used_;
  std::optional<c10::Stream> last_;
  std::uint64_t copied_bytes_ = 0;
};

}  // namespace tally::python
