#include "integrations/python/src/torch/collectives.h"

#include <algorithm>
#include <optional>
#include <string>

#include "integrations/python/src/torch/tensors.h"

namespace tally::python {

// The work of one call: its operations, the tensors that they use, and the copies into tensors that
// are not contiguous.
struct Collectives::Plan {
  c10d::OpType kind;
  Tensors inputs;   // of the call, for the profiler
  Tensors outputs;  // the result of the work
  std::vector<Request> requests{};
  Tensors keep{};
  std::vector<std::pair<at::Tensor, at::Tensor>> copies{};  // to, from

  // Returns a contiguous tensor with the tensor's elements.
  at::Tensor readable(const at::Tensor& tensor) {
    keep.push_back(tensor.contiguous());
    return keep.back();
  }
  // Returns a contiguous tensor. When it is another one, its final content is copied into `tensor`.
  at::Tensor writable(const at::Tensor& tensor, bool with_elements) {
    if (tensor.is_contiguous()) {
      keep.push_back(tensor);
    } else {
      keep.push_back(with_elements ? tensor.contiguous()
                                   : at::empty(tensor.sizes(), tensor.options()));
      copies.emplace_back(tensor, keep.back());
    }
    return keep.back();
  }
};

WorkPtr Collectives::start(Plan&& plan, std::chrono::milliseconds timeout) {
  count();
  const auto limit = timeout.count() > 0 ? timeout : timeout_.load();
  constexpr std::int64_t kDay = 86'400'000;
  for (Request& request : plan.requests) {
    request.awaited = true;
    request.deadline_ms =
        static_cast<std::uint32_t>(std::clamp<std::int64_t>(limit.count(), 1, kDay));
  }
  auto finish = [copies = std::move(plan.copies)] {
    const at::NoGradGuard no_gradient;
    for (const auto& [to, from] : copies) {
      // The mode is one of the thread that called the collective, and this may be another.
      std::optional<c10::InferenceMode> mode;
      if (to.is_inference()) mode.emplace();
      to.copy_(from);
    }
  };
  auto work = c10::make_intrusive<Work>(communicator_, plan.kind, sequence_.load(), plan.inputs,
                                        std::move(plan.outputs), std::move(finish));
  Work::start(work, plan.requests, std::move(plan.keep));
  return work;
}

WorkPtr Collectives::all_reduce(const Tensors& tensors, const c10d::ReduceOp& op,
                                std::chrono::milliseconds timeout, c10d::OpType kind) {
  Plan plan{kind, tensors, tensors};
  for (const at::Tensor& tensor : tensors) {
    require_dense(tensor, "the tensor");
    const auto type = type_of(tensor.scalar_type());
    const auto reduction = op_of(op, tensor.scalar_type());
    if (!type || !reduction) return {};
    if (tensor.numel() == 0) continue;
    const at::Tensor memory = plan.writable(tensor, true);
    Request request;
    request.type = *type;
    request.op = *reduction;
    request.count = static_cast<std::uint64_t>(memory.numel());
    request.in = request.out = memory.data_ptr();
    plan.requests.push_back(request);
  }
  return start(std::move(plan), timeout);
}

WorkPtr Collectives::reduce(const at::Tensor& tensor, std::int64_t root, const c10d::ReduceOp& op,
                            std::chrono::milliseconds timeout) {
  require_dense(tensor, "the tensor");
  require_root(root, communicator_->ranks());
  const auto type = type_of(tensor.scalar_type());
  const auto reduction = op_of(op, tensor.scalar_type());
  if (!type || !reduction) return {};
  Plan plan{c10d::OpType::REDUCE, {tensor}, {tensor}};
  const bool receives = communicator_->rank() == static_cast<std::uint32_t>(root);
  if (tensor.numel() > 0) {
    const at::Tensor memory = receives ? plan.writable(tensor, true) : plan.readable(tensor);
    Request request;
    request.kind = TALLY_REDUCE;
    request.type = *type;
    request.op = *reduction;
    request.count = static_cast<std::uint64_t>(memory.numel());
    request.in = memory.data_ptr();
    request.out = receives ? memory.data_ptr() : nullptr;
    request.root = static_cast<std::uint32_t>(root);
    plan.requests.push_back(request);
  }
  return start(std::move(plan), timeout);
}

WorkPtr Collectives::broadcast(const at::Tensor& tensor, std::int64_t root,
                               std::chrono::milliseconds timeout) {
  require_dense(tensor, "the tensor");
  require_root(root, communicator_->ranks());
  Plan plan{c10d::OpType::BROADCAST, {tensor}, {tensor}};
  const bool sends = communicator_->rank() == static_cast<std::uint32_t>(root);
  if (tensor.numel() > 0) {
    const at::Tensor memory = sends ? plan.readable(tensor) : plan.writable(tensor, false);
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
  const at::Tensor from = plan.readable(input);
  plan.requests.push_back(
      moving(TALLY_ALL_GATHER, output.nbytes(), from.data_ptr(), output.data_ptr()));
}

WorkPtr Collectives::all_gather(const TensorLists& outputs, const Tensors& inputs,
                                std::chrono::milliseconds timeout, c10d::OpType kind) {
  require_lists(outputs.size(), inputs.size());
  Plan plan{kind, inputs, {}};
  const auto ranks = std::int64_t{communicator_->ranks()};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor& input = inputs[i];
    require_dense(input, "the input");
    require_ranks(outputs[i].size(), communicator_->ranks());
    const at::Tensor flat = at::empty({ranks, input.numel()}, input.options());
    plan.keep.push_back(flat);
    add_all_gather(plan, flat, input);
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const at::Tensor& output = outputs[i][static_cast<std::size_t>(rank)];
      require_dense(output, "an output");
      require_elements(output, input.numel(), "an output");
      require_same_type(output, input);
      plan.copies.emplace_back(output, flat[rank].view(output.sizes()));
      plan.outputs.push_back(output);
    }
  }
  return start(std::move(plan), timeout);
}

WorkPtr Collectives::all_gather_flat(const Tensors& outputs, const Tensors& inputs,
                                     std::chrono::milliseconds timeout) {
  require_as_many(outputs, inputs);
  Plan plan{c10d::OpType::_ALLGATHER_BASE, inputs, outputs};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor& input = inputs[i];
    require_dense(outputs[i], "the output");
    require_dense(input, "the input");
    require_same_type(outputs[i], input);
    require_elements(outputs[i], input.numel() * std::int64_t{communicator_->ranks()},
                     "the output");
    const at::Tensor to = plan.writable(outputs[i], false);
    add_all_gather(plan, to, input);
  }
  return start(std::move(plan), timeout);
}

bool Collectives::add_reduce_scatter(Plan& plan, const at::Tensor& output, const at::Tensor& input,
                                     const c10d::ReduceOp& op) const {
  const auto type = type_of(input.scalar_type());
  const auto reduction = op_of(op, input.scalar_type());
  if (!type || !reduction) return false;
  require_same_type(output, input);
  require_elements(input, output.numel() * std::int64_t{communicator_->ranks()}, "the input");
  if (output.numel() == 0) return true;
  Request request;
  request.kind = TALLY_REDUCE_SCATTER;
  request.type = *type;
  request.op = *reduction;
  request.count = static_cast<std::uint64_t>(input.numel());
  request.in = plan.readable(input).data_ptr();
  request.out = plan.writable(output, false).data_ptr();
  plan.requests.push_back(request);
  return true;
}

WorkPtr Collectives::reduce_scatter(const Tensors& outputs, const TensorLists& inputs,
                                    const c10d::ReduceOp& op, std::chrono::milliseconds timeout) {
  require_lists(inputs.size(), outputs.size());
  Plan plan{c10d::OpType::REDUCE_SCATTER, {}, outputs};
  for (const Tensors& list : inputs)
    plan.inputs.insert(plan.inputs.end(), list.begin(), list.end());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    require_dense(outputs[i], "the output");
    Tensors flat;
    for (const at::Tensor& input : inputs[i]) {
      require_dense(input, "an input");
      require_elements(input, outputs[i].numel(), "an input");
      flat.push_back(input.reshape({-1}));
    }
    require_ranks(flat.size(), communicator_->ranks());
    if (!add_reduce_scatter(plan, outputs[i], at::cat(flat), op)) return {};
  }
  return start(std::move(plan), timeout);
}

WorkPtr Collectives::reduce_scatter_flat(const Tensors& outputs, const Tensors& inputs,
                                         const c10d::ReduceOp& op,
                                         std::chrono::milliseconds timeout) {
  require_as_many(outputs, inputs);
  Plan plan{c10d::OpType::_REDUCE_SCATTER_BASE, inputs, outputs};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_dense(outputs[i], "the output");
    require_dense(inputs[i], "the input");
    if (!add_reduce_scatter(plan, outputs[i], inputs[i], op)) return {};
  }
  return start(std::move(plan), timeout);
}

WorkPtr Collectives::barrier(std::chrono::milliseconds timeout) {
  Plan plan{c10d::OpType::BARRIER, {}, {}};
  Request request;
  request.kind = TALLY_BARRIER;
  plan.requests.push_back(request);
  return start(std::move(plan), timeout);
}

}  // namespace tally::python
