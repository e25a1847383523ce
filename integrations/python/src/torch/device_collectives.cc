#include "integrations/python/src/torch/device_collectives.h"

#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace tally::python {

struct DeviceCollectives::Plan {
  DeviceWork::Call call;
  c10::Device device;
  std::vector<Transfer> transfers{};
  CallMemory memory{};

  // A transfer of tensors of this type that the node sums. Failure when it cannot.
  Transfer summing(tally_kind kind, const at::Tensor& like, const c10d::ReduceOp& op) const {
    const auto request = reducing(kind, like.scalar_type(), op);
    if (!request) {
      throw Failure(TALLY_UNSUPPORTED, std::string("nodes do not have this reduction of ") +
                                           at::toString(like.scalar_type()) + " tensors on " +
                                           device.str() + ": reduce copies on the CPU");
    }
    Transfer transfer;
    transfer.request = *request;
    transfer.wire = like.scalar_type();
    return transfer;
  }
  static Transfer of_bytes(tally_kind kind, const at::Tensor& like) {
    Transfer transfer;
    transfer.request = moving(kind, 0, nullptr, nullptr);
    transfer.moves = true;
    transfer.wire = like.scalar_type();
    return transfer;
  }
};

namespace {

at::Tensor as_rows(const at::Tensor& contiguous, std::int64_t columns) {
  return contiguous.view({contiguous.numel() / columns, columns});
}

}  // namespace

CommStreams& DeviceCollectives::streams_of(c10::Device device) {
  const auto found = streams_.find(device.index());
  if (found != streams_.end()) return found->second;
  return streams_.emplace(device.index(), CommStreams(communicator_, device)).first->second;
}

// Only large all-reduces without statistics use machine groups. Operations of CUDA graphs do not.
MachineReducer* DeviceCollectives::machine_for(const Plan& plan) {
  if (!communicator_->options().machine_groups) return nullptr;
  const bool is_large =
      std::any_of(plan.transfers.begin(), plan.transfers.end(), [](const Transfer& transfer) {
        return transfer.request.kind == TALLY_ALL_REDUCE && !transfer.request.stats &&
               static_cast<std::uint64_t>(transfer.columns * transfer.bytes_of_element()) >=
                   MachineReducer::kLeastBytes;
      });
  const auto current = c10::impl::VirtualGuardImpl(plan.device.type()).getStream(plan.device);
  if (!is_large || CommStreams::is_capturing(current)) return nullptr;
  try {
    return machines_.of(streams_of(plan.device), plan.device);
  } catch (const Failure& caught) {
    if (caught.status != TALLY_INVALID_ARGUMENT) failure_->set(caught);
    throw;
  }
}

c10::intrusive_ptr<DeviceWork> DeviceCollectives::start(Plan&& plan, Timeout timeout,
                                                        c10::IValue value,
                                                        const c10::TypePtr& type) {
  failure_->throw_if_set();
  plan.call.sequence = ++sequence_;
  const std::lock_guard lock(mutex_);
  const AllowedCalls allowed(plan.device);
  MachineReducer* const machine = machine_for(plan);
  auto work = c10::make_intrusive<DeviceWork>(communicator_, failure_, std::move(plan.call),
                                              plan.device, std::move(value), type);
  DeviceTransfers transfers(*communicator_, streams_of(plan.device), machine, plan.device);
  std::exception_ptr thrown;
  try {
    for (Transfer& transfer : plan.transfers) {
      transfer.request.deadline_ms = deadline_of(timeout);
      transfers.enqueue(transfer, work);
    }
  } catch (const Failure& caught) {
    failure_->set(caught);
    thrown = std::current_exception();
  } catch (const std::exception& caught) {  // of torch
    failure_->set(Failure(TALLY_INTERNAL, caught.what()));
    thrown = std::current_exception();
  }
  copied_bytes_ += transfers.copied_bytes();
  const c10::Stream last = transfers.join();
  {
    const c10::StreamGuard guard(last);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    for (const auto& [to, from] : plan.memory.copies) to.copy_(from);
  }
  work->enqueued(last, std::move(plan.memory.keep), transfers.in_graph());
  if (thrown) std::rethrow_exception(thrown);
  return work;
}

WorkPtr DeviceCollectives::all_reduce(const Tensors& tensors, const c10d::ReduceOp& op,
                                      Timeout timeout, c10d::OpType kind) {
  Plan plan{{kind, 0, tensors, tensors}, tensors.front().device()};
  for (const at::Tensor& tensor : tensors) {
    require_dense(tensor, "the tensor", plan.device);
    Transfer transfer = plan.summing(TALLY_ALL_REDUCE, tensor, op);
    if (tensor.numel() == 0) continue;
    transfer.columns = tensor.numel();
    const at::Tensor memory = as_rows(plan.memory.writable(tensor, true), transfer.columns);
    transfer.inputs = transfer.outputs = {{0, memory}};
    plan.transfers.push_back(std::move(transfer));
  }
  return start(std::move(plan), timeout);
}

WorkPtr DeviceCollectives::reduce(const at::Tensor& tensor, std::int64_t root,
                                  const c10d::ReduceOp& op, Timeout timeout) {
  Plan plan{{c10d::OpType::REDUCE, 0, {tensor}, {tensor}}, tensor.device()};
  require_dense(tensor, "the tensor", plan.device);
  require_root(root, communicator_->ranks());
  Transfer transfer = plan.summing(TALLY_REDUCE, tensor, op);
  if (tensor.numel() > 0) {
    transfer.request.root = static_cast<std::uint32_t>(root);
    transfer.columns = tensor.numel();
    const bool receives = communicator_->rank() == transfer.request.root;
    const at::Tensor memory =
        as_rows(receives ? plan.memory.writable(tensor, true) : plan.memory.readable(tensor),
                transfer.columns);
    transfer.inputs = {{0, memory}};
    if (receives) transfer.outputs = {{0, memory}};
    plan.transfers.push_back(std::move(transfer));
  }
  return start(std::move(plan), timeout);
}

WorkPtr DeviceCollectives::broadcast(const at::Tensor& tensor, std::int64_t root, Timeout timeout) {
  Plan plan{{c10d::OpType::BROADCAST, 0, {tensor}, {tensor}}, tensor.device()};
  require_dense(tensor, "the tensor", plan.device);
  require_root(root, communicator_->ranks());
  if (tensor.numel() > 0) {
    Transfer transfer = Plan::of_bytes(TALLY_BROADCAST, tensor);
    transfer.request.root = static_cast<std::uint32_t>(root);
    transfer.columns = tensor.numel();
    const bool sends = communicator_->rank() == transfer.request.root;
    const at::Tensor memory =
        as_rows(sends ? plan.memory.readable(tensor) : plan.memory.writable(tensor, false),
                transfer.columns);
    (sends ? transfer.inputs : transfer.outputs) = {{0, memory}};
    plan.transfers.push_back(std::move(transfer));
  }
  return start(std::move(plan), timeout);
}

// The rows of `outputs`, one tensor after the other, are the ranks'.
void DeviceCollectives::add_all_gather(Plan& plan, const at::Tensor& input,
                                       const Tensors& outputs) const {
  const std::int64_t columns = input.numel();
  if (columns == 0) return;
  Transfer transfer = Plan::of_bytes(TALLY_ALL_GATHER, input);
  transfer.rows = communicator_->ranks();
  transfer.columns = columns;
  transfer.inputs = {{communicator_->rank(), as_rows(plan.memory.readable(input), columns)}};
  std::int64_t row = 0;
  for (const at::Tensor& output : outputs) {
    const at::Tensor rows = as_rows(plan.memory.writable(output, false), columns);
    transfer.outputs.push_back({row, rows});
    row += rows.size(0);
  }
  plan.transfers.push_back(std::move(transfer));
}

WorkPtr DeviceCollectives::all_gather(const TensorLists& outputs, const Tensors& inputs,
                                      Timeout timeout, c10d::OpType kind) {
  Plan plan{{kind, 0, inputs, joined(outputs)}, inputs.front().device()};
  require_gather(outputs, inputs, communicator_->ranks(), plan.device);
  for (std::size_t i = 0; i < inputs.size(); ++i) add_all_gather(plan, inputs[i], outputs[i]);
  return start(std::move(plan), timeout);
}

WorkPtr DeviceCollectives::all_gather_flat(const Tensors& outputs, const Tensors& inputs,
                                           Timeout timeout) {
  Plan plan{{c10d::OpType::_ALLGATHER_BASE, 0, inputs, outputs}, inputs.front().device()};
  require_gather_flat(outputs, inputs, communicator_->ranks(), plan.device);
  for (std::size_t i = 0; i < inputs.size(); ++i) add_all_gather(plan, inputs[i], {outputs[i]});
  return start(std::move(plan), timeout);
}

void DeviceCollectives::add_reduce_scatter(Plan& plan, const at::Tensor& output,
                                           const Tensors& inputs, const c10d::ReduceOp& op) const {
  Transfer transfer = plan.summing(TALLY_REDUCE_SCATTER, output, op);
  const std::int64_t columns = output.numel();
  if (columns == 0) return;
  transfer.rows = communicator_->ranks();
  transfer.columns = columns;
  std::int64_t row = 0;
  for (const at::Tensor& input : inputs) {
    const at::Tensor rows = as_rows(plan.memory.readable(input), columns);
    transfer.inputs.push_back({row, rows});
    row += rows.size(0);
  }
  transfer.outputs = {
      {communicator_->rank(), as_rows(plan.memory.writable(output, false), columns)}};
  plan.transfers.push_back(std::move(transfer));
}

WorkPtr DeviceCollectives::reduce_scatter(const Tensors& outputs, const TensorLists& inputs,
                                          const c10d::ReduceOp& op, Timeout timeout) {
  Plan plan{{c10d::OpType::REDUCE_SCATTER, 0, joined(inputs), outputs}, outputs.front().device()};
  require_scatter(outputs, inputs, communicator_->ranks(), plan.device);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    add_reduce_scatter(plan, outputs[i], inputs[i], op);
  }
  return start(std::move(plan), timeout);
}

WorkPtr DeviceCollectives::reduce_scatter_flat(const Tensors& outputs, const Tensors& inputs,
                                               const c10d::ReduceOp& op, Timeout timeout) {
  Plan plan{{c10d::OpType::_REDUCE_SCATTER_BASE, 0, inputs, outputs}, outputs.front().device()};
  require_scatter_flat(outputs, inputs, communicator_->ranks(), plan.device);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    add_reduce_scatter(plan, outputs[i], {inputs[i]}, op);
  }
  return start(std::move(plan), timeout);
}

c10::intrusive_ptr<DeviceWork> DeviceCollectives::average(const at::Tensor& bucket,
                                                          const Bucket& how, c10::IValue value,
                                                          const c10::TypePtr& type) {
  Plan plan{{c10d::OpType::ALLREDUCE, 0, {bucket}, {bucket}}, bucket.device()};
  require_dense(bucket, "the bucket", plan.device);
  const auto current = c10::impl::VirtualGuardImpl(plan.device.type()).getStream(plan.device);
  if (how.stats && CommStreams::is_capturing(current)) {
    throw Failure(TALLY_UNSUPPORTED,
                  "the current stream is being captured, and statistics come with a completion, "
                  "which operations of CUDA graphs do not have: use State(stats=False)");
  }
  const at::Tensor memory = plan.memory.writable(bucket, true);
  Transfer transfer = plan.summing(TALLY_ALL_REDUCE, bucket, c10d::ReduceOp::AVG);
  if (how.wire) {
    transfer.wire = *how.wire;
    transfer.request.type = *type_of(*how.wire);
  }
  transfer.request.priority = how.priority;
  transfer.request.stats = how.stats;
  if (bucket.numel() > 0) {
    transfer.columns = bucket.numel();
    transfer.inputs = transfer.outputs = {{0, as_rows(memory, transfer.columns)}};
    plan.transfers.push_back(std::move(transfer));
  }
  return start(std::move(plan), how.timeout, std::move(value), type);
}

}  // namespace tally::python
