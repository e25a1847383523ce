// The functions of torch 2.x's Backend, as far as a backend of ours has them, for builds with torch
// 1.x: group_v2.cc is then compiled against these, so that it does not rot. Never linked.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace c10d {

class Backend : public torch::CustomClassHolder {
 public:
  using WorkPtr = c10::intrusive_ptr<Work>;
  using Tensors = std::vector<at::Tensor>;
  using Lists = std::vector<Tensors>;
  using Sizes = std::vector<std::int64_t>;

  Backend(int rank, int size);
  ~Backend() override;
  virtual const std::string getBackendName() const;
  virtual WorkPtr broadcast(Tensors&, const BroadcastOptions&);
  virtual WorkPtr allreduce(Tensors&, const AllreduceOptions&);
  virtual WorkPtr allreduce_coalesced(Tensors&, const AllreduceCoalescedOptions&);
  virtual WorkPtr reduce(Tensors&, const ReduceOptions&);
  virtual WorkPtr allgather(Lists&, Tensors&, const AllgatherOptions&);
  virtual WorkPtr _allgather_base(at::Tensor&, at::Tensor&, const AllgatherOptions&);
  virtual WorkPtr allgather_coalesced(Lists&, Tensors&, const AllgatherOptions&);
  virtual WorkPtr allgather_into_tensor_coalesced(Tensors&, Tensors&, const AllgatherOptions&);
  virtual WorkPtr gather(Lists&, Tensors&, const GatherOptions&);
  virtual WorkPtr scatter(Tensors&, Lists&, const ScatterOptions&);
  virtual WorkPtr reduce_scatter(Tensors&, Lists&, const ReduceScatterOptions&);
  virtual WorkPtr _reduce_scatter_base(at::Tensor&, at::Tensor&, const ReduceScatterOptions&);
  virtual WorkPtr reduce_scatter_tensor_coalesced(Tensors&, Tensors&, const ReduceScatterOptions&);
  virtual WorkPtr alltoall_base(at::Tensor&, at::Tensor&, Sizes&, Sizes&, const AllToAllOptions&);
  virtual WorkPtr alltoall(Tensors&, Tensors&, const AllToAllOptions&);
  virtual WorkPtr send(Tensors&, int to, int tag);
  virtual WorkPtr recv(Tensors&, int from, int tag);
  virtual WorkPtr recvAnysource(Tensors&, int tag);
  virtual WorkPtr barrier(const BarrierOptions&);
};

}  // namespace c10d
