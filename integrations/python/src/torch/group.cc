#include "integrations/python/src/torch/group.h"

#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <optional>

#include "integrations/python/src/torch/allocator.h"
#include "integrations/python/src/torch/tensors.h"

namespace tally::python {
namespace {

const at::Tensor& one(const Tensors& tensors) {
  if (tensors.size() != 1) {
    throw Failure(TALLY_INVALID_ARGUMENT,
                  std::to_string(tensors.size()) + " tensors; this collective takes one at a time");
  }
  return tensors.front();
}

bool is_sparse(const Tensors& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& tensor) { return tensor.is_sparse(); });
}

bool is_on_device(const at::Tensor& tensor) {
  return tensor.is_cuda() || tensor.is_privateuseone();
}

bool is_on_device(const Tensors& tensors) {
  return !tensors.empty() && is_on_device(tensors.front());
}

// Undefined when there is none.
at::Tensor first_of(const Tensors& tensors) {
  return tensors.empty() ? at::Tensor() : tensors.front();
}

}  // namespace

Group::Group(const std::shared_ptr<Communicator>& communicator, std::chrono::milliseconds timeout,
             c10::intrusive_ptr<c10d::Backend> gloo)
    : Backend(static_cast<int>(communicator->rank()), static_cast<int>(communicator->ranks())),
      timeout_(timeout),
      collectives_(communicator),
      devices_(communicator),
      gloo_(std::move(gloo)),
      options_(c10::make_intrusive<c10d::Backend::Options>("tally", timeout)) {}

// Gloo's threads may need the GIL for a last callback.
Group::~Group() {
  std::optional<pybind11::gil_scoped_release> nogil;
  if (PyGILState_Check() != 0) nogil.emplace();
  gloo_.reset();
}

// torch's splitGroup() writes into what it gets.
c10::intrusive_ptr<c10d::Backend::Options> Group::getBackendOptions() {
  return c10::make_intrusive<c10d::Backend::Options>(*options_);
}

void Group::setTimeout(std::chrono::milliseconds timeout) {
  options_->timeout = timeout;
  timeout_ = timeout;
  gloo_->setTimeout(timeout);
}

WorkPtr Group::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  if (is_sparse(tensors)) return counted_gloo(first_of(tensors)).allreduce(tensors, options);
  if (is_on_device(tensors)) {
    return devices_.all_reduce(tensors, options.reduceOp, limit(options.timeout),
                               c10d::OpType::ALLREDUCE);
  }
  auto work = collectives_.all_reduce(tensors, options.reduceOp, limit(options.timeout),
                                      c10d::OpType::ALLREDUCE);
  return work ? work : counted_gloo().allreduce(tensors, options);
}

WorkPtr Group::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  return counted_gloo(first_of(tensors)).allreduce_sparse(tensors, options);
}

WorkPtr Group::allreduce_coalesced(Tensors& tensors,
                                   const c10d::AllreduceCoalescedOptions& options) {
  if (is_on_device(tensors)) {
    return devices_.all_reduce(tensors, options.reduceOp, limit(options.timeout),
                               c10d::OpType::ALLREDUCE_COALESCED);
  }
  auto work = collectives_.all_reduce(tensors, options.reduceOp, limit(options.timeout),
                                      c10d::OpType::ALLREDUCE_COALESCED);
  return work ? work : counted_gloo().allreduce_coalesced(tensors, options);
}

WorkPtr Group::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  if (is_on_device(one(tensors))) {
    return devices_.broadcast(one(tensors), options.rootRank, limit(options.timeout));
  }
  return collectives_.broadcast(one(tensors), options.rootRank, limit(options.timeout));
}

WorkPtr Group::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  if (is_on_device(one(tensors))) {
    return devices_.reduce(one(tensors), options.rootRank, options.reduceOp,
                           limit(options.timeout));
  }
  auto work =
      collectives_.reduce(one(tensors), options.rootRank, options.reduceOp, limit(options.timeout));
  return work ? work : counted_gloo().reduce(tensors, options);
}

WorkPtr Group::gather_all(const TensorLists& outputs, const Tensors& inputs,
                          std::chrono::milliseconds timeout, c10d::OpType kind) {
  return is_on_device(inputs) ? devices_.all_gather(outputs, inputs, limit(timeout), kind)
                              : collectives_.all_gather(outputs, inputs, limit(timeout), kind);
}

WorkPtr Group::gather_all_flat(const Tensors& outputs, const Tensors& inputs,
                               std::chrono::milliseconds timeout) {
  return is_on_device(inputs) ? devices_.all_gather_flat(outputs, inputs, limit(timeout))
                              : collectives_.all_gather_flat(outputs, inputs, limit(timeout));
}

WorkPtr Group::allgather(TensorLists& outputs, Tensors& inputs,
                         const c10d::AllgatherOptions& options) {
  return gather_all(outputs, inputs, options.timeout, c10d::OpType::ALLGATHER);
}

// This function's lists are ordered by rank, not by input.
WorkPtr Group::allgather_coalesced(TensorLists& by_rank, Tensors& inputs,
                                   const c10d::AllgatherOptions& options) {
  TensorLists outputs(inputs.size());
  for (const Tensors& of_rank : by_rank) {
    if (of_rank.size() != inputs.size()) {
      throw Failure(TALLY_INVALID_ARGUMENT, std::to_string(of_rank.size()) + " outputs for " +
                                                std::to_string(inputs.size()) + " inputs");
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) outputs[i].push_back(of_rank.at(i));
  }
  return gather_all(outputs, inputs, options.timeout, c10d::OpType::ALLGATHER_COALESCED);
}

WorkPtr Group::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                               const c10d::AllgatherOptions& options) {
  return gather_all_flat(outputs, inputs, options.timeout);
}

WorkPtr Group::_allgather_base(at::Tensor& output, at::Tensor& input,
                               const c10d::AllgatherOptions& options) {
  return gather_all_flat({output}, {input}, options.timeout);
}

WorkPtr Group::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                              const c10d::ReduceScatterOptions& options) {
  if (is_on_device(outputs)) {
    return devices_.reduce_scatter(outputs, inputs, options.reduceOp, limit(options.timeout));
  }
  auto work =
      collectives_.reduce_scatter(outputs, inputs, options.reduceOp, limit(options.timeout));
  return work ? work : counted_gloo().reduce_scatter(outputs, inputs, options);
}

WorkPtr Group::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                               const c10d::ReduceScatterOptions& options) {
  if (is_on_device(outputs)) {
    return devices_.reduce_scatter_flat(outputs, inputs, options.reduceOp, limit(options.timeout));
  }
  auto work =
      collectives_.reduce_scatter_flat(outputs, inputs, options.reduceOp, limit(options.timeout));
  return work ? work : counted_gloo().reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

WorkPtr Group::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                    const c10d::ReduceScatterOptions& options) {
  if (is_on_device(output)) {
    return devices_.reduce_scatter_flat({output}, {input}, options.reduceOp,
                                        limit(options.timeout));
  }
  auto work =
      collectives_.reduce_scatter_flat({output}, {input}, options.reduceOp, limit(options.timeout));
  return work ? work : counted_gloo()._reduce_scatter_base(output, input, options);
}

WorkPtr Group::barrier(const c10d::BarrierOptions& options) {
  return collectives_.barrier(limit(options.timeout));
}

WorkPtr Group::gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  return counted_gloo(first_of(inputs)).gather(outputs, inputs, options);
}

WorkPtr Group::scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) {
  return counted_gloo(first_of(outputs)).scatter(outputs, inputs, options);
}

WorkPtr Group::alltoall_base(at::Tensor& output, at::Tensor& input,
                             std::vector<std::int64_t>& output_sizes,
                             std::vector<std::int64_t>& input_sizes,
                             const c10d::AllToAllOptions& options) {
  return counted_gloo(input).alltoall_base(output, input, output_sizes, input_sizes, options);
}

WorkPtr Group::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  return counted_gloo(first_of(inputs)).alltoall(outputs, inputs, options);
}

WorkPtr Group::send(Tensors& tensors, int to, int tag) {
  return open_gloo(first_of(tensors)).send(tensors, to, tag);
}

WorkPtr Group::recv(Tensors& tensors, int from, int tag) {
  return open_gloo(first_of(tensors)).recv(tensors, from, tag);
}

WorkPtr Group::recvAnysource(Tensors& tensors, int tag) {
  return open_gloo(first_of(tensors)).recvAnysource(tensors, tag);
}

void Group::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) {
  counted_gloo().monitoredBarrier(options, wait_for_all);
}

c10::intrusive_ptr<c10d::Backend> Group::split(
    const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  const auto found = std::find(ranks.begin(), ranks.end(), getRank());
  if (found == ranks.end()) return {};
  namespace py = pybind11;
  const py::gil_scoped_acquire gil;
  const py::object create = py::module_::import("tally.torch._backend").attr("create");
  // torch gives the same store for the same ranks again.
  const auto own =
      c10::make_intrusive<c10d::PrefixStore>("split " + std::to_string(splits_[ranks]++), store);
  return create(c10::intrusive_ptr<c10d::Store>(own), found - ranks.begin(), ranks.size(),
                options ? options->timeout : options_->timeout)
      .cast<c10::intrusive_ptr<c10d::Backend>>();
}

at::Tensor Group::allocateTensor(long elements, at::TensorOptions options) {
  if (!options.device().is_cpu()) return at::empty({elements}, options);
  const auto bytes = static_cast<std::size_t>(elements) * options.dtype().itemsize();
  const c10::Storage storage(c10::Storage::use_byte_size_t{}, bytes, shared_allocator().get(),
                             false);
  return at::empty({0}, options.device(at::kCPU)).set_(storage, 0, {elements}, {1});
}

std::shared_ptr<c10::Allocator> Group::getMemAllocator() {
  return shared_allocator();
}

// Gloo of torch 2.13 can neither end nor cancel anything, so its outstanding works go on.
void Group::abort() {
  communicator()->close();
}

void Group::shutdown() {
  communicator()->close();
}

c10d::Backend& Group::open_gloo(const at::Tensor& tensor) const {
  if (communicator()->closed()) throw Failure(TALLY_CANCELLED, "the group was closed");
  if (tensor.defined() && is_on_device(tensor)) {
    throw Failure(TALLY_UNSUPPORTED, "gloo does this, and the tensor is on " +
                                         tensor.device().str() + ": use copies on the CPU");
  }
  return *gloo_;
}

c10d::Backend& Group::counted_gloo(const at::Tensor& tensor) {
  collectives_.count();
  return open_gloo(tensor);
}

c10d::ErrorType Group::getError() {
  switch (communicator()->first_failure()) {
    case TALLY_OK:
      return c10d::ErrorType::SUCCESS;
    case TALLY_DEADLINE:
      return c10d::ErrorType::TIMEOUT;
    case TALLY_PEER_LOST:
      return c10d::ErrorType::REMOTE_ERROR;
    default:
      return c10d::ErrorType::COMM_ERROR;
  }
}

void bind_group(pybind11::module_& module) {
  namespace py = pybind11;
  py::class_<Group, c10d::Backend, c10::intrusive_ptr<Group>>(module, "Group")
      .def(py::init([](const std::shared_ptr<Communicator>& communicator, double timeout,
                       const c10::intrusive_ptr<c10d::Backend>& gloo) {
             const auto limit =
                 std::chrono::milliseconds(static_cast<std::int64_t>(timeout * 1000));
             return c10::make_intrusive<Group>(communicator, limit, gloo);
           }),
           py::arg("communicator"), py::arg("timeout"), py::arg("gloo"))
      .def_property_readonly("options", &Group::getBackendOptions)
      .def("get_error", &Group::getError)
      .def_property_readonly("communicator", &Group::communicator)
      .def_property_readonly("copied_on_devices", &Group::copied_on_devices);
}

}  // namespace tally::python
