// Conversions from torch's types and tensors to tally's.
#pragma once

#include <ATen/ATen.h>

#include <torch/csrc/distributed/c10d/Types.hpp>

#include <optional>
#include <vector>

#include "integrations/python/src/communicator.h"

namespace tally::python {

// Returns nullopt for a type that tally does not sum.
std::optional<tally_type> type_of(at::ScalarType type);
// Returns nullopt for an operation that tally does not have. For booleans, the sum means "any".
std::optional<tally_op> op_of(const c10d::ReduceOp& op, at::ScalarType type);

// The following functions throw Failure. The messages name the tensor `what`.

// Unless the tensor is dense and on the device.
void require_dense(const at::Tensor& tensor, const char* what, c10::Device device = at::kCPU);
void require_elements(const at::Tensor& tensor, std::int64_t expected, const char* what);
void require_same_type(const at::Tensor& a, const at::Tensor& b);
void require_as_many(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs);
// A list for each input.
void require_lists(std::size_t lists, std::size_t tensors);
// A tensor for each rank.
void require_ranks(std::size_t tensors, std::uint32_t ranks);
void require_root(std::int64_t root, std::uint32_t ranks);

// Returns a request that moves bytes and does not sum them, so any element type works.
Request moving(tally_kind kind, std::uint64_t bytes, const void* in, void* out);

}  // namespace tally::python
