// The backend "tally" of torch.distributed: one group of ranks.
//
// What summation nodes do goes to them: all-reduce, reduce, broadcast, all-gather, reduce-scatter
// and barrier. Gloo does the rest: point-to-point, all-to-all, gather and scatter, sparse tensors,
// and the reductions and types that nodes do not have. docs/pytorch.md has the table. Tensors may
// also be on CUDA devices, for all that nodes do.
#pragma once

#include <pybind11/pybind11.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "integrations/python/src/torch/collectives.h"
#include "integrations/python/src/torch/device_collectives.h"

namespace tally::python {

// Every rank calls the functions of a group in the same order, as torch requires.
class Group final : public c10d::Backend {
 public:
  // `gloo` is a group of the same ranks.
  Group(const std::shared_ptr<Communicator>& communicator, std::chrono::milliseconds timeout,
        c10::intrusive_ptr<c10d::Backend> gloo);
  ~Group() override;

  const std::string getBackendName() const override { return "tally"; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override;
  void setTimeout(std::chrono::milliseconds timeout) override;

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(TensorLists& by_rank, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;

  WorkPtr gather(TensorLists& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input,
                        std::vector<std::int64_t>& output_sizes,
                        std::vector<std::int64_t>& input_sizes,
                        const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) override;

  // The number of collectives that this rank has called.
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override {
    return collectives_.sequence() + devices_.sequence();
  }

  // The new group connects its ranks to a node as init_process_group() does.
  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<c10d::Backend> split(
      const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
      const c10::intrusive_ptr<c10d::Backend::Options>& options) override;

  // Memory that a node on this machine uses in place, whatever its size.
  bool supportsTensorAlloc(c10::DeviceIndex) override { return true; }
  at::Tensor allocateTensor(long elements, at::TensorOptions options) override;
  std::shared_ptr<c10::Allocator> getMemAllocator() override;

  // Ends the session: what is outstanding at the node ends as cancelled, and later calls fail.
  void abort() override;
  void shutdown() override;
  c10d::ErrorType getError() override;

  const std::shared_ptr<Communicator>& communicator() const { return collectives_.communicator(); }
  // Bytes that were copied on devices, beside their ways to and from the node.
  std::uint64_t copied_on_devices() const { return devices_.copied_bytes(); }

 private:
  // Throw Failure after abort() or shutdown(), and for a tensor on a device. The second one is for
  // collectives.
  c10d::Backend& open_gloo(const at::Tensor& tensor = {}) const;
  c10d::Backend& counted_gloo(const at::Tensor& tensor = {});
  WorkPtr gather_all(const TensorLists& outputs, const Tensors& inputs,
                     std::chrono::milliseconds timeout, c10d::OpType kind);
  WorkPtr gather_all_flat(const Tensors& outputs, const Tensors& inputs,
                          std::chrono::milliseconds timeout);
  // The time-out of a call, or the group's when the call has none.
  std::chrono::milliseconds limit(std::chrono::milliseconds timeout) const {
    return timeout.count() > 0 ? timeout : timeout_.load();
  }

  std::atomic<std::chrono::milliseconds> timeout_;
  Collectives collectives_;
  DeviceCollectives devices_;
  c10::intrusive_ptr<c10d::Backend> gloo_;
  c10::intrusive_ptr<c10d::Backend::Options> options_;
  std::map<std::vector<int>, int> splits_;  // how often the group was split into these ranks
};

// Adds the class `Group` with its constructor `Group(communicator, timeout in seconds, gloo)`.
void bind_group(pybind11::module_& module);

}  // namespace tally::python
