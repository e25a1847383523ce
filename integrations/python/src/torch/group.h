// The group of ranks as this version of torch knows it; group_v1.cc or group_v2.cc binds it.
#pragma once

#include <pybind11/pybind11.h>

namespace tally::python {

// Adds `make_group` (group_adapter.h).
void bind_group(pybind11::module_& module);

}  // namespace tally::python
