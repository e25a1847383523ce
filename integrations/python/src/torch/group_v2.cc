// torch 2.x: a backend is a Backend.
#include "integrations/python/src/torch/group.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "integrations/python/src/torch/group_adapter.h"

namespace tally::python {

void bind_group(pybind11::module_& module) {
  bind_group_as<c10d::Backend>(module);
}

}  // namespace tally::python
