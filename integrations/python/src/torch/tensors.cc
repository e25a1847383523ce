#include "integrations/python/src/torch/tensors.h"

#include <algorithm>
#include <string>

namespace tally::python {
namespace {

void require_elements(const at::Tensor& tensor, std::int64_t expected, const char* what) {
  if (tensor.numel() != expected) {
    throw Failure(TALLY_INVALID_ARGUMENT, std::string(what) + " has " +
                                              std::to_string(tensor.numel()) + " elements, not " +
                                              std::to_string(expected));
  }
}

void require_same_type(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type()) {
    throw Failure(TALLY_INVALID_ARGUMENT, "input and output are of different types");
  }
}

void require_as_many(const std::vector<at::Tensor>& outputs,
                     const std::vector<at::Tensor>& inputs) {
  if (outputs.size() != inputs.size()) {
    throw Failure(TALLY_INVALID_ARGUMENT, std::to_string(outputs.size()) + " outputs for " +
                                              std::to_string(inputs.size()) + " inputs");
  }
}

void require_lists(std::size_t lists, std::size_t tensors) {
  if (lists != tensors) {
    throw Failure(TALLY_INVALID_ARGUMENT,
                  std::to_string(lists) + " lists for " + std::to_string(tensors) + " tensors");
  }
}

void require_ranks(std::size_t tensors, std::uint32_t ranks) {
  if (tensors != ranks) {
    throw Failure(TALLY_INVALID_ARGUMENT,
                  std::to_string(tensors) + " tensors for " + std::to_string(ranks) + " ranks");
  }
}

}  // namespace

std::optional<tally_type> type_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return TALLY_F32;
    case at::kDouble:
      return TALLY_F64;
    case at::kHalf:
      return TALLY_F16;
    case at::kBFloat16:
      return TALLY_BF16;
    case at::kChar:
      return TALLY_I8;
    case at::kByte:
    case at::kBool:
      return TALLY_U8;
    case at::kInt:
      return TALLY_I32;
    case at::kLong:
      return TALLY_I64;
    default:
      return std::nullopt;
  }
}

std::optional<tally_op> op_of(const c10d::ReduceOp& op, at::ScalarType type) {
  using c10d::ReduceOp;
  if (op == ReduceOp::SUM) return type == at::kBool ? TALLY_MAX : TALLY_SUM;
  if (op == ReduceOp::AVG && type != at::kBool) return TALLY_AVERAGE;
  if (op == ReduceOp::MIN) return TALLY_MIN;
  if (op == ReduceOp::MAX) return TALLY_MAX;
  return std::nullopt;
}

void require_dense(const at::Tensor& tensor, const char* what, c10::Device device) {
  if (tensor.device() != device) {
    throw Failure(TALLY_UNSUPPORTED, std::string(what) + " is on " + tensor.device().str() +
                                         "; this call takes tensors on " + device.str());
  }
  if (tensor.layout() != at::kStrided) {
    throw Failure(TALLY_UNSUPPORTED,
                  std::string(what) + " is sparse; make it dense first (to_dense())");
  }
}

void require_root(std::int64_t root, std::uint32_t ranks) {
  if (root < 0 || root >= std::int64_t{ranks}) {
    throw Failure(TALLY_INVALID_ARGUMENT, "rank " + std::to_string(root) +
                                              " as root of a group of " + std::to_string(ranks));
  }
}

namespace {

// Each list has a piece for each rank, and each piece the shape of the list's tensor.
void require_pieces(const Tensors& tensors, const char* tensor_name, const TensorLists& lists,
                    const char* piece_name, std::uint32_t ranks, c10::Device device) {
  require_lists(lists.size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    require_dense(tensors[i], tensor_name, device);
    require_ranks(lists[i].size(), ranks);
    for (const at::Tensor& piece : lists[i]) {
      require_dense(piece, piece_name, device);
      require_elements(piece, tensors[i].numel(), piece_name);
      require_same_type(piece, tensors[i]);
    }
  }
}

}  // namespace

void require_gather(const TensorLists& outputs, const Tensors& inputs, std::uint32_t ranks,
                    c10::Device device) {
  require_pieces(inputs, "the input", outputs, "an output", ranks, device);
}

void require_gather_flat(const Tensors& outputs, const Tensors& inputs, std::uint32_t ranks,
                         c10::Device device) {
  require_as_many(outputs, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_dense(outputs[i], "the output", device);
    require_dense(inputs[i], "the input", device);
    require_same_type(outputs[i], inputs[i]);
    require_elements(outputs[i], inputs[i].numel() * std::int64_t{ranks}, "the output");
  }
}

void require_scatter(const Tensors& outputs, const TensorLists& inputs, std::uint32_t ranks,
                     c10::Device device) {
  require_pieces(outputs, "the output", inputs, "an input", ranks, device);
}

void require_scatter_flat(const Tensors& outputs, const Tensors& inputs, std::uint32_t ranks,
                          c10::Device device) {
  require_as_many(outputs, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_dense(outputs[i], "the output", device);
    require_dense(inputs[i], "the input", device);
    require_same_type(outputs[i], inputs[i]);
    require_elements(inputs[i], outputs[i].numel() * std::int64_t{ranks}, "the input");
  }
}

Tensors joined(const TensorLists& lists) {
  Tensors all;
  for (const Tensors& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

std::optional<Request> reducing(tally_kind kind, at::ScalarType type, const c10d::ReduceOp& op) {
  const auto element = type_of(type);
  const auto reduction = op_of(op, type);
  if (!element || !reduction) return std::nullopt;
  Request request;
  request.kind = kind;
  request.type = *element;
  request.op = *reduction;
  return request;
}

Request moving(tally_kind kind, std::uint64_t bytes, const void* in, void* out) {
  Request request;
  request.kind = kind;
  request.type = TALLY_U8;
  request.count = bytes;
  request.in = in;
  request.out = out;
  return request;
}

std::uint32_t deadline_of(std::chrono::milliseconds timeout) {
  constexpr std::int64_t kDay = 86'400'000;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(timeout.count(), 1, kDay));
}

at::Tensor CallMemory::readable(const at::Tensor& tensor) {
  keep.push_back(tensor.contiguous());
  return keep.back();
}

at::Tensor CallMemory::writable(const at::Tensor& tensor, bool with_elements) {
  keep.push_back(tensor);
  if (tensor.is_contiguous()) return tensor;
  keep.push_back(with_elements ? tensor.contiguous() : at::empty(tensor.sizes(), tensor.options()));
  copies.emplace_back(tensor, keep.back());
  return keep.back();
}

}  // namespace tally::python
