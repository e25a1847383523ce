#include "integrations/python/src/torch/tensors.h"

#include <string>

namespace tally::python {

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

void require_dense(const at::Tensor& tensor, const char* what) {
  if (!tensor.device().is_cpu()) {
    throw Failure(TALLY_UNSUPPORTED, std::string(what) + " is on " + tensor.device().str() +
                                         "; this backend takes tensors in host memory");
  }
  if (tensor.layout() != at::kStrided) {
    throw Failure(TALLY_UNSUPPORTED,
                  std::string(what) + " is sparse; make it dense first (to_dense())");
  }
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

}  // namespace tally::python
