// Conversions from torch's types and tensors to tally's, and the checks of a collective's
// arguments.
#pragma once

#include <ATen/ATen.h>

#include <torch/csrc/distributed/c10d/Types.hpp>

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "integrations/python/src/communicator.h"

namespace tally::python {

using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;

// Returns nullopt for a type that tally does not sum.
std::optional<tally_type> type_of(at::ScalarType type);
// Returns nullopt for an operation that tally does not have. For booleans, the sum means "any".
std::optional<tally_op> op_of(const c10d::ReduceOp& op, at::ScalarType type);

// The following functions throw Failure. The messages name the tensor `what`.

// Unless the tensor is dense and on the device.
void require_dense(const at::Tensor& tensor, const char* what, c10::Device device = at::kCPU);
void require_root(std::int64_t root, std::uint32_t ranks);
// The arguments of collectives, which Collectives describes. All tensors are dense and on the
// device.
void require_gather(const TensorLists& outputs, const Tensors& inputs, std::uint32_t ranks,
                    c10::Device device = at::kCPU);
void require_gather_flat(const Tensors& outputs, const Tensors& inputs, std::uint32_t ranks,
                         c10::Device device = at::kCPU);
void require_scatter(const Tensors& outputs, const TensorLists& inputs, std::uint32_t ranks,
                     c10::Device device = at::kCPU);
void require_scatter_flat(const Tensors& outputs, const Tensors& inputs, std::uint32_t ranks,
                          c10::Device device = at::kCPU);

// The tensors of all lists, one after the other.
Tensors joined(const TensorLists& lists);

// Returns a request for a reduction; nullopt when nodes do not have it for elements of this type.
std::optional<Request> reducing(tally_kind kind, at::ScalarType type, const c10d::ReduceOp& op);
// Returns a request that moves bytes and does not sum them, so any element type works.
Request moving(tally_kind kind, std::uint64_t bytes, const void* in, void* out);

// A request's deadline.
std::uint32_t deadline_of(std::chrono::milliseconds timeout);

// The memory of a call: contiguous tensors for its operations.
struct CallMemory {
  Tensors keep{};                                           // must live until the call has ended
  std::vector<std::pair<at::Tensor, at::Tensor>> copies{};  // to, from; after the operations

  // Returns a contiguous tensor with the tensor's elements.
  at::Tensor readable(const at::Tensor& tensor);
  // Returns a contiguous tensor. When it is another one, its final content is copied into `tensor`.
  at::Tensor writable(const at::Tensor& tensor, bool with_elements);
};

}  // namespace tally::python
