#include "integrations/python/src/torch/collectives.h"

#include <optional>
#include <utility>
#include <vector>

namespace tally::python {

// The work of one call: its operations and the memory that they use.
struct Collectives::Plan {
  CollectiveWork::Call call;
  std::vector<Request> requests{};
  CallMemory memory{};
};

WorkPtr Collectives::start(Plan&& plan, std::chrono::milliseconds timeout) {
  count();
  plan.call.sequence = sequence_;
  for (Request& request : plan.requests) {
    request.awaited = true;
    request.deadline_ms = deadline_of(timeout);
  }
  auto finish = [copies = std::move(plan.memory.copies)] {
    const at::NoGradGuard no_gradient;
    for (const auto& [to, from] : copies) {
      // The mode is one of the thread that called the collective, and this may be another.
      std::optional<c10::InferenceMode> mode;
      if (to.is_inference()) mode.emplace();
      to.copy_(from);
    }
  };
  auto work = c10::make_intrusive<Work>(communicator_, std::move(plan.call), std::move(finish));
  Work::start(work, plan.requests, std::move(plan.memory.keep));
  return work;
}

WorkPtr Collectives::all_reduce(const Tensors& tensors, const c10d::ReduceOp& op,
                                std::chrono::milliseconds timeout, c10d::OpType kind) {
  Plan plan{{kind, 0, tensors, tensors}};
  for (const at::Tensor& tensor : tensors) {
    require_dense(tensor, "the tensor");
    auto request = reducing(TALLY_ALL_REDUCE, tensor.scalar_type(), op);
    if (!request) return {};
    if (tensor.numel() == 0) continue;
    const at::Tensor memory = plan.memory.writable(tensor, true);
    request->count = static_cast<std::uint64_t>(memory.numel());
    request->in = request->out = memory.data_ptr();
    plan.requests.push_back(*request);
  }
  return start(std::move(plan), timeout);
}

WorkPtr Collectives::reduce(const at::Tensor& tensor, std::int64_t root, const c10d::ReduceOp& op,
                            std::chrono::milliseconds timeout) {
  require_dense(tensor, "the tensor");
  require_root(root, communicator_->ranks());
  auto request = reducing(TALLY_REDUCE, tensor.scalar_type(), op);
  if (!request) return {};
  Plan plan{{c10d::OpType::REDUCE, 0, {tensor}, {tensor}}};
  if (tensor.numel() > 0) {
    request->root = static_cast<std::uint32_t>(root);
    const bool receives = communicator_->rank() == request->root;
    const at::Tensor memory =
        receives ? plan.memory.writable(tensor, true) : plan.memory.readable(tensor);
    request->count = static_cast<std::uint64_t>(memory.numel());
    request->in = memory.data_ptr();
    request->out = receives ? memory.data_ptr() : nullptr;
    plan.requests.push_back(*request);
  }
  return start(std::move(plan), timeout);
}

WorkPtr Collectives::broadcast(const at::Tensor& tensor, std::int64_t root,
                               std::chrono::milliseconds timeout) {
  require_dense(tensor, "the tensor");
  require_root(root, communicator_->ranks());
  Plan plan{{c10d::OpType::BROADCAST, 0, {tensor}, {tensor}}};
  const bool sends = communicator_->rank() == static_cast<std::uint32_t>(root);
  if (tensor.numel() > 0) {
    const at::Tensor memory =
        sends ? plan.memory.readable(tensor) : plan.memory.writable(tensor, false);
    void* data = memory.data_ptr();
    Request request = moving(TALLY_BROADCAST, memory.nbytes(), sends ? data : nullptr, data);
    request.root = static_cast<std::uint32_t>(root);
    plan.requests.push_back(request);
  }
  return start(std::move(plan), timeout);
}

void Collectives::add_all_gather(Plan& plan, const at::Tensor& output,
                                 const at::Tensor& input) const {
  if (input.numel() == 0) return;
  const at::Tensor from = plan.memory.readable(input);
  plan.requests.push_back(
      moving(TALLY_ALL_GATHER, output.nbytes(), from.data_ptr(), output.data_ptr()));
}

WorkPtr Collectives::all_gather(const TensorLists& outputs, const Tensors& inputs,
                                std::chrono::milliseconds timeout, c10d::OpType kind) {
  require_gather(outputs, inputs, communicator_->ranks());
  Plan plan{{kind, 0, inputs, joined(outputs)}};
  const auto ranks = std::int64_t{communicator_->ranks()};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor flat = at::empty({ranks, inputs[i].numel()}, inputs[i].options());
    plan.memory.keep.push_back(flat);
    add_all_gather(plan, flat, inputs[i]);
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const at::Tensor& output = outputs[i][static_cast<std::size_t>(rank)];
      plan.memory.copies.emplace_back(output, flat[rank].view(output.sizes()));
    }
  }
  return start(std::move(plan), timeout);
}

WorkPtr Collectives::all_gather_flat(const Tensors& outputs, const Tensors& inputs,
                                     std::chrono::milliseconds timeout) {
  require_gather_flat(outputs, inputs, communicator_->ranks());
  Plan plan{{c10d::OpType::_ALLGATHER_BASE, 0, inputs, outputs}};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    add_all_gather(plan, plan.memory.writable(outputs[i], false), inputs[i]);
  }
  return start(std::move(plan), timeout);
}

bool Collectives::add_reduce_scatter(Plan& plan, const at::Tensor& output, const at::Tensor& input,
                                     const c10d::ReduceOp& op) const {
  auto request = reducing(TALLY_REDUCE_SCATTER, input.scalar_type(), op);
  if (!request) return false;
  if (output.numel() == 0) return true;
  request->count = static_cast<std::uint64_t>(input.numel());
  request->in = plan.memory.readable(input).data_ptr();
  request->out = plan.memory.writable(output, false).data_ptr();
  plan.requests.push_back(*request);
  return true;
}

WorkPtr Collectives::reduce_scatter(const Tensors& outputs, const TensorLists& inputs,
                                    const c10d::ReduceOp& op, std::chrono::milliseconds timeout) {
  require_scatter(outputs, inputs, communicator_->ranks());
  Plan plan{{c10d::OpType::REDUCE_SCATTER, 0, joined(inputs), outputs}};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Tensors flat;
    for (const at::Tensor& input : inputs[i]) flat.push_back(input.reshape({-1}));
    if (!add_reduce_scatter(plan, outputs[i], at::cat(flat), op)) return {};
  }
  return start(std::move(plan), timeout);
}

WorkPtr Collectives::reduce_scatter_flat(const Tensors& outputs, const Tensors& inputs,
                                         const c10d::ReduceOp& op,
                                         std::chrono::milliseconds timeout) {
  require_scatter_flat(outputs, inputs, communicator_->ranks());
  Plan plan{{c10d::OpType::_REDUCE_SCATTER_BASE, 0, inputs, outputs}};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!add_reduce_scatter(plan, outputs[i], inputs[i], op)) return {};
  }
  return start(std::move(plan), timeout);
}

WorkPtr Collectives::barrier(std::chrono::milliseconds timeout) {
  Plan plan{{c10d::OpType::BARRIER, 0, {}, {}}};
  Request request;
  request.kind = TALLY_BARRIER;
  plan.requests.push_back(request);
  return start(std::move(plan), timeout);
}

}  // namespace tally::python
