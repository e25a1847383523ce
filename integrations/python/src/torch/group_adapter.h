// The virtual functions that torch.distributed calls on a backend. torch 1.x calls a ProcessGroup,
// and torch 2.x calls a Backend; the functions are the same. Operations that tally does not have go
// to gloo.
#pragma once

#include <torch/extension.h>

#include <memory>
#include <string>
#include <vector>

#include "integrations/python/src/torch/collectives.h"

namespace tally::python {

template <typename Base>
class GroupAdapter : public Base {
 public:
  GroupAdapter(const std::shared_ptr<Communicator>& communicator, std::chrono::milliseconds timeout,
               c10::intrusive_ptr<Base> gloo)
      : Base(static_cast<int>(communicator->rank()), static_cast<int>(communicator->ranks())),
        collectives_(communicator, timeout),
        gloo_(std::move(gloo)) {}

  const std::string getBackendName() const override { return "tally"; }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    auto work = collectives_.all_reduce(tensors, options.reduceOp, options.timeout,
                                        c10d::OpType::ALLREDUCE);
    return work ? work : gloo_->allreduce(tensors, options);
  }
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override {
    auto work = collectives_.all_reduce(tensors, options.reduceOp, options.timeout,
                                        c10d::OpType::ALLREDUCE_COALESCED);
    return work ? work : gloo_->allreduce_coalesced(tensors, options);
  }
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return collectives_.broadcast(one(tensors), options.rootRank, options.timeout);
  }
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    auto work =
        collectives_.reduce(one(tensors), options.rootRank, options.reduceOp, options.timeout);
    return work ? work : gloo_->reduce(tensors, options);
  }
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
    return collectives_.all_gather(outputs, inputs, options.timeout, c10d::OpType::ALLGATHER);
  }
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override {
    return collectives_.all_gather_flat({output}, {input}, options.timeout);
  }
  // This function's lists are ordered by rank, not by input.
  WorkPtr allgather_coalesced(TensorLists& by_rank, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override {
    TensorLists outputs(inputs.size());
    for (const Tensors& of_rank : by_rank) {
      for (std::size_t i = 0; i < inputs.size(); ++i) outputs[i].push_back(of_rank.at(i));
    }
    return collectives_.all_gather(outputs, inputs, options.timeout,
                                   c10d::OpType::ALLGATHER_COALESCED);
  }
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    auto work = collectives_.reduce_scatter(outputs, inputs, options.reduceOp, options.timeout);
    return work ? work : gloo_->reduce_scatter(outputs, inputs, options);
  }
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    auto work =
        collectives_.reduce_scatter_flat({output}, {input}, options.reduceOp, options.timeout);
    return work ? work : gloo_->_reduce_scatter_base(output, input, options);
  }
  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    return collectives_.barrier(options.timeout);
  }

  WorkPtr gather(TensorLists& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override {
    return gloo_->gather(outputs, inputs, options);
  }
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs,
                  const c10d::ScatterOptions& options) override {
    return gloo_->scatter(outputs, inputs, options);
  }
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input,
                        std::vector<std::int64_t>& output_sizes,
                        std::vector<std::int64_t>& input_sizes,
                        const c10d::AllToAllOptions& options) override {
    return gloo_->alltoall_base(output, input, output_sizes, input_sizes, options);
  }
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override {
    return gloo_->alltoall(outputs, inputs, options);
  }
  WorkPtr send(Tensors& tensors, int to, int tag) override { return gloo_->send(tensors, to, tag); }
  WorkPtr recv(Tensors& tensors, int from, int tag) override {
    return gloo_->recv(tensors, from, tag);
  }
  WorkPtr recvAnysource(Tensors& tensors, int tag) override {
    return gloo_->recvAnysource(tensors, tag);
  }

  const std::shared_ptr<Communicator>& communicator() const { return collectives_.communicator(); }

 protected:
  Collectives& collectives() { return collectives_; }

 private:
  static const at::Tensor& one(const Tensors& tensors) {
    if (tensors.size() != 1) {
      throw Failure(TALLY_INVALID_ARGUMENT, "one tensor at a time belongs");
    }
    return tensors.front();
  }

  Collectives collectives_;
  c10::intrusive_ptr<Base> gloo_;
};

// Adds `make_group(communicator, timeout in seconds, gloo)`, which makes a Group. Adds
// `communicator_of(group)`, which returns None when the group is not one of tally.
template <typename Base, typename Group = GroupAdapter<Base>>
void bind_group_as(pybind11::module_& module) {
  module.def(
      "make_group",
      [](const std::shared_ptr<Communicator>& communicator, double timeout,
         const c10::intrusive_ptr<Base>& gloo) -> c10::intrusive_ptr<Base> {
        const auto limit = std::chrono::milliseconds(static_cast<std::int64_t>(timeout * 1000));
        return c10::make_intrusive<Group>(communicator, limit, gloo);
      },
      pybind11::arg("communicator"), pybind11::arg("timeout"), pybind11::arg("gloo"));
  module.def(
      "communicator_of",
      [](const c10::intrusive_ptr<Base>& group) {
        const auto* ours = dynamic_cast<const GroupAdapter<Base>*>(group.get());
        return ours == nullptr ? nullptr : ours->communicator();
      },
      pybind11::arg("group"));
}

}  // namespace tally::python
