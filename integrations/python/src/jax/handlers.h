// The two custom calls of an operation, for XLA on CPUs.
#pragma once

#include "xla/ffi/api/c_api.h"

namespace tally::python {

// (token, input) -> (token, number of the operation). The tokens give the calls of a program their
// order.
extern XLA_FFI_Handler* const kStart;
// number -> result. XLA's thread is free until the operation ends.
extern XLA_FFI_Handler* const kFinish;

}  // namespace tally::python
