// Tensors as tally sees them.
#pragma once

#include <ATen/ATen.h>

#include <torch/csrc/distributed/c10d/Types.hpp>

#include <optional>

#include "integrations/python/src/communicator.h"

namespace tally::python {

// nullopt for a type that tally does not sum.
std::optional<tally_type> type_of(at::ScalarType type);
// nullopt for an operation that tally does not have. On booleans "sum" means "any".
std::optional<tally_op> op_of(const c10d::ReduceOp& op, at::ScalarType type);

// Throws Failure unless it is dense and in this machine's memory; `what` names it.
void require_dense(const at::Tensor& tensor, const char* what);

// The tensor's elements as plain bytes, for what is moved and not summed: any type will do.
Request moving(tally_kind kind, std::uint64_t bytes, const void* in, void* out);

}  // namespace tally::python
