// The group of ranks for this version of torch. group_v1.cc or group_v2.cc implements it.
#pragma once

#include <pybind11/pybind11.h>

namespace tally::python {

// Adds `make_group` (group_adapter.h).
void bind_group(pybind11::module_& module);

}  // namespace tally::python
