// Conversions from torch's types and tensors to tally's.
#pragma once

#include <ATen/ATen.h>

#include <torch/csrc/distributed/c10d/Types.hpp>

#include <optional>

#include "integrations/python/src/communicator.h"

namespace tally::python {

// Returns nullopt for a type that tally does not sum.
std::optional<tally_type> type_of(at::ScalarType type);
// Returns nullopt for an operation that tally does not have. For booleans, the sum means "any".
std::optional<tally_op> op_of(const c10d::ReduceOp& op, at::ScalarType type);

// Throws Failure unless the tensor is dense and in this machine's memory. The message names it
// `what`.
void require_dense(const at::Tensor& tensor, const char* what);

// Returns a request that moves bytes and does not sum them, so any element type works.
Request moving(tally_kind kind, std::uint64_t bytes, const void* in, void* out);

}  // namespace tally::python
