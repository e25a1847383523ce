// torch 2.x: a backend is a Backend, and there are coalesced forms of the flat collectives.
#include "integrations/python/src/torch/group.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "integrations/python/src/torch/group_adapter.h"

namespace tally::python {
namespace {

class Group final : public GroupAdapter<c10d::Backend> {
 public:
  using GroupAdapter::GroupAdapter;

  // Not `override`: torch 2.0 does not have them yet.
  virtual WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                  const c10d::AllgatherOptions& options) {
    return collectives().all_gather_flat(outputs, inputs, options.timeout);
  }
  virtual WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                  const c10d::ReduceScatterOptions& options) {
    auto work =
        collectives().reduce_scatter_flat(outputs, inputs, options.reduceOp, options.timeout);
    if (!work) throw Failure(TALLY_UNSUPPORTED, "this reduction, or this type");
    return work;
  }
};

}  // namespace

void bind_group(pybind11::module_& module) {
  bind_group_as<c10d::Backend, Group>(module);
}

}  // namespace tally::python
