// The collectives of torch.distributed for tensors on CUDA devices. The caller's current stream
// orders each call, and the call returns at once.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "integrations/python/src/torch/collectives.h"
#include "integrations/python/src/torch/comm_streams.h"
#include "integrations/python/src/torch/device_transfers.h"
#include "integrations/python/src/torch/device_work.h"
#include "integrations/python/src/torch/machines.h"

namespace tally::python {

// As Collectives. The tensors of a call are on one device. An operation or type that nodes do not
// have is a Failure. After the failure of a collective all later calls throw it.
class DeviceCollectives {
 public:
  using Timeout = std::chrono::milliseconds;

  explicit DeviceCollectives(std::shared_ptr<Communicator> communicator)
      : communicator_(std::move(communicator)), machines_(communicator_) {}

  WorkPtr all_reduce(const Tensors& tensors, const c10d::ReduceOp& op, Timeout timeout,
                     c10d::OpType kind);
  WorkPtr reduce(const at::Tensor& tensor, std::int64_t root, const c10d::ReduceOp& op,
                 Timeout timeout);
  WorkPtr broadcast(const at::Tensor& tensor, std::int64_t root, Timeout timeout);
  WorkPtr all_gather(const TensorLists& outputs, const Tensors& inputs, Timeout timeout,
                     c10d::OpType kind);
  WorkPtr all_gather_flat(const Tensors& outputs, const Tensors& inputs, Timeout timeout);
  WorkPtr reduce_scatter(const Tensors& outputs, const TensorLists& inputs,
                         const c10d::ReduceOp& op, Timeout timeout);
  WorkPtr reduce_scatter_flat(const Tensors& outputs, const Tensors& inputs,
                              const c10d::ReduceOp& op, Timeout timeout);

  struct Bucket {
    std::optional<at::ScalarType> wire;  // the type on the way; none: as it is
    std::uint32_t priority = 0;
    bool stats = false;
    Timeout timeout;
  };
  // Averages a bucket of gradients in place. The future of the work returns `value`, of type
  // `type`.
  c10::intrusive_ptr<DeviceWork> average(const at::Tensor& bucket, const Bucket& how,
                                         c10::IValue value, const c10::TypePtr& type);

  // The number of collectives that this rank has called.
  std::uint64_t sequence() const { return sequence_; }
  // Bytes that were copied on devices, between tensors and the buffers of the nodes.
  std::uint64_t copied_bytes() const { return copied_bytes_; }

 private:
  struct Plan;

  c10::intrusive_ptr<DeviceWork> start(Plan&& plan, Timeout timeout, c10::IValue value = {},
                                       const c10::TypePtr& type = nullptr);
  CommStreams& streams_of(c10::Device device);
  MachineReducer* machine_for(const Plan& plan);
  void add_all_gather(Plan& plan, const at::Tensor& input, const Tensors& outputs) const;
  void add_reduce_scatter(Plan& plan, const at::Tensor& output, const Tensors& inputs,
                          const c10d::ReduceOp& op) const;

  std::shared_ptr<Communicator> communicator_;
  std::shared_ptr<DeviceFailure> failure_ = std::make_shared<DeviceFailure>();
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<std::uint64_t> copied_bytes_{0};
  std::mutex mutex_;  // guards the streams, and the order of what is enqueued on them
  std::map<c10::DeviceIndex, CommStreams> streams_;
  Machines machines_;
};

}  // namespace tally::python
