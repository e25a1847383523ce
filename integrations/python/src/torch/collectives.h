// The collectives of torch.distributed for one group of ranks.
#pragma once

#include <torch/csrc/distributed/c10d/Types.hpp>

#include <atomic>
#include <chrono>
#include <memory>

#include "integrations/python/src/torch/tensors.h"
#include "integrations/python/src/torch/work.h"

namespace tally::python {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// Every rank of the group must call the same functions in the same order. The functions throw
// Failure when an argument is never valid. They return null for an operation or type that tally
// does not have.
class Collectives {
 public:
  explicit Collectives(std::shared_ptr<Communicator> communicator)
      : communicator_(std::move(communicator)) {}

  // The number of collectives that this rank has called. count() is for those that gloo does.
  std::uint64_t sequence() const { return sequence_; }
  void count() { ++sequence_; }

  WorkPtr all_reduce(const Tensors& tensors, const c10d::ReduceOp& op,
                     std::chrono::milliseconds timeout, c10d::OpType kind);
  WorkPtr reduce(const at::Tensor& tensor, std::int64_t root, const c10d::ReduceOp& op,
                 std::chrono::milliseconds timeout);
  WorkPtr broadcast(const at::Tensor& tensor, std::int64_t root, std::chrono::milliseconds timeout);
  // outputs[i][r] becomes rank r's inputs[i].
  WorkPtr all_gather(const TensorLists& outputs, const Tensors& inputs,
                     std::chrono::milliseconds timeout, c10d::OpType kind);
  // outputs[i] becomes the inputs[i] of all ranks, one after the other.
  WorkPtr all_gather_flat(const Tensors& outputs, const Tensors& inputs,
                          std::chrono::milliseconds timeout);
  // outputs[i] becomes the reduction of inputs[i][this rank] over all ranks.
  WorkPtr reduce_scatter(const Tensors& outputs, const TensorLists& inputs,
                         const c10d::ReduceOp& op, std::chrono::milliseconds timeout);
  // The same. inputs[i] holds the parts for the ranks, one after the other.
  WorkPtr reduce_scatter_flat(const Tensors& outputs, const Tensors& inputs,
                              const c10d::ReduceOp& op, std::chrono::milliseconds timeout);
  WorkPtr barrier(std::chrono::milliseconds timeout);

  const std::shared_ptr<Communicator>& communicator() const { return communicator_; }

 private:
  struct Plan;

  WorkPtr start(Plan&& plan, std::chrono::milliseconds timeout);
  bool add_reduce_scatter(Plan& plan, const at::Tensor& output, const at::Tensor& input,
                          const c10d::ReduceOp& op) const;
  void add_all_gather(Plan& plan, const at::Tensor& output, const at::Tensor& input) const;

  std::shared_ptr<Communicator> communicator_;
  std::atomic<std::uint64_t> sequence_{0};
};

}  // namespace tally::python
