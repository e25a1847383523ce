#include "integrations/python/src/torch/device_transfers.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>

namespace tally::python {

DeviceTransfers::DeviceTransfers(Communicator& communicator, CommStreams& streams,
                                 MachineReducer* machine, c10::Device device)
    : communicator_(communicator),
      streams_(streams),
      machine_(machine),
      device_(device),
      current_(c10::impl::VirtualGuardImpl(device.type()).getStream(device)),
      in_graph_(CommStreams::is_capturing(current_)),
      begin_(device.type()) {
  if (!in_graph_) begin_.record(current_);
}

CommStream& DeviceTransfers::next_stream() {
  CommStream& stream = streams_.next();
  if (std::find(used_.begin(), used_.end(), stream.stream) == used_.end()) {
    begin_.block(stream.stream);
    used_.push_back(stream.stream);
  }
  last_ = stream.stream;
  return stream;
}

c10::Stream DeviceTransfers::join() const {
  if (!last_) return current_;
  for (const c10::Stream& stream : used_) {
    if (stream == *last_) continue;
    c10::Event event(device_.type());
    event.record(stream);
    event.block(*last_);
  }
  return *last_;
}

void DeviceTransfers::enqueue(const Transfer& transfer,
                              const c10::intrusive_ptr<DeviceWork>& work) {
  if (in_graph_) return enqueue_in_graph(transfer, work);
  const bool by_machine = machine_ != nullptr && transfer.request.kind == TALLY_ALL_REDUCE &&
                          machine_->takes(request_of(transfer, transfer.columns, nullptr));
  const std::int64_t bytes_of_column = transfer.rows * transfer.bytes_of_element();
  const auto most =
      std::max<std::int64_t>(1, std::int64_t{CommStreams::kLargestBuffer} / bytes_of_column);
  for (std::int64_t first = 0; first < transfer.columns; first += most) {
    enqueue_piece(transfer, first, std::min(most, transfer.columns - first), by_machine, work);
  }
}

// Results lie over the contributions.
Request DeviceTransfers::request_of(const Transfer& transfer, std::int64_t columns,
                                    std::byte* buffer) const {
  const std::int64_t row = columns * transfer.bytes_of_element();
  Request request = transfer.request;
  request.count = static_cast<std::uint64_t>(transfer.rows * (transfer.moves ? row : columns));
  request.in = transfer.inputs.empty() ? nullptr : buffer;
  request.out = transfer.outputs.empty() && request.kind == TALLY_REDUCE ? nullptr : buffer;
  const std::int64_t own_row = static_cast<std::int64_t>(communicator_.rank()) * row;
  if (request.kind == TALLY_ALL_GATHER) request.in = buffer + own_row;
  if (request.kind == TALLY_REDUCE_SCATTER) request.out = buffer + own_row;
  request.on_device = true;
  return request;
}

// The copies go below autograd: the collective is no operation on the tensors for it, as NCCL's is
// none.
template <typename Post>
void DeviceTransfers::exchange(const Transfer& transfer, std::int64_t first, std::int64_t count,
                               void* buffer, Post post) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::Tensor matrix = at::for_blob(buffer, {transfer.rows, count})
                                .options(at::TensorOptions(transfer.wire).device(device_))
                                .target_device(device_)
                                .make_tensor();
  const auto each = [&](const std::vector<Transfer::Part>& parts, auto copy) {
    for (const auto& [row, tensor] : parts) {
      const at::Tensor columns = tensor.narrow(1, first, count);
      copy(columns, matrix.narrow(0, row, columns.size(0)));
      copied_bytes_ += columns.nbytes();
    }
  };
  each(transfer.inputs, [](const at::Tensor& from, const at::Tensor& to) { to.copy_(from); });
  post(request_of(transfer, count, static_cast<std::byte*>(buffer)));
  each(transfer.outputs, [](const at::Tensor& to, const at::Tensor& from) { to.copy_(from); });
}

void DeviceTransfers::enqueue_piece(const Transfer& transfer, std::int64_t first,
                                    std::int64_t count, bool by_machine,
                                    const c10::intrusive_ptr<DeviceWork>& work) {
  CommStream& stream = next_stream();
  const c10::StreamGuard guard(stream.stream);
  const auto bytes = static_cast<std::size_t>(transfer.rows * count * transfer.bytes_of_element());
  void* const buffer = streams_.buffer(stream, bytes);
  exchange(transfer, first, count, buffer, [&](Request request) {
    request.stream = stream.native;
    work->begin_one();
    const auto end = [work](const Outcome& one) { work->end_one(one); };
    try {
      if (by_machine) {
        machine_->post(request, buffer, CommStreams::buffer_bytes(bytes), end);
      } else {
        communicator_.post(request, end);
      }
    } catch (const Failure& failure) {
      work->end_one(Outcome::of(failure));
      throw;
    }
  });
}

void DeviceTransfers::enqueue_in_graph(const Transfer& transfer,
                                       const c10::intrusive_ptr<DeviceWork>& work) {
  void* const native = c10::impl::VirtualGuardImpl(device_.type()).getStreamNativeHandle(current_);
  const auto bytes =
      static_cast<std::size_t>(transfer.rows * transfer.columns * transfer.bytes_of_element());
  exchange(transfer, 0, transfer.columns, streams_.buffer_of_graph(native, bytes),
           [&](Request request) {
             request.stream = native;
             request.in_graph = true;
             communicator_.post(request, [failure = work->group_failure()](const Outcome& round) {
               failure->set(with_known_words(round.failure()));
             });
           });
}

}  // namespace tally::python
