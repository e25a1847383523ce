// torch 2.x: a backend is a Backend.
#include "integrations/python/src/torch/group.h"

#include <torch/extension.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "integrations/python/src/torch/group_adapter.h"

namespace tally::python {

void bind_group(pybind11::module_& module) {
  module.def(
      "make_group",
      [](const std::shared_ptr<Communicator>& communicator, double timeout,
         const c10::intrusive_ptr<c10d::Backend>& gloo) -> c10::intrusive_ptr<c10d::Backend> {
        const auto limit = std::chrono::milliseconds(static_cast<std::int64_t>(timeout * 1000));
        return c10::make_intrusive<GroupAdapter<c10d::Backend>>(communicator, limit, gloo);
      },
      pybind11::arg("communicator"), pybind11::arg("timeout"), pybind11::arg("gloo"));
}

}  // namespace tally::python
