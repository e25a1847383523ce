#include "tests/support/nccl/operation.h"

#include <array>
#include <cstring>

#include "summation/reduce.h"
#include "tests/support/cuda/cuda_process.h"

namespace tally::test::nccl {
namespace {

struct TypeOf {
  ElementType element;
  std::size_t bytes;
  bool supported = true;
};

TypeOf facts_of(DataType type) {
  switch (type) {
    case DataType::kInt8:
      return {ElementType::kI8, 1};
    case DataType::kUint8:
      return {ElementType::kU8, 1};
    case DataType::kInt32:
      return {ElementType::kI32, 4};
    case DataType::kInt64:
      return {ElementType::kI64, 8};
    case DataType::kFloat16:
      return {ElementType::kF16, 2};
    case DataType::kFloat32:
      return {ElementType::kF32, 4};
    case DataType::kFloat64:
      return {ElementType::kF64, 8};
    case DataType::kBfloat16:
      return {ElementType::kBf16, 2};
    default:
      return {ElementType::kF32, 0, false};
  }
}

tally::Operation operation_of(RedOp op) {
  switch (op) {
    case RedOp::kAvg:
      return tally::Operation::kAverage;
    case RedOp::kMax:
      return tally::Operation::kMax;
    case RedOp::kMin:
      return tally::Operation::kMin;
    default:
      return tally::Operation::kSum;
  }
}

// Reduces `inputs` to a buffer of its own, in the order of ranks.
std::vector<std::byte> reduced(const Operation& operation,
                               const std::vector<const std::byte*>& inputs) {
  const TypeOf type = facts_of(operation.type);
  const std::size_t bytes = operation.count * type.bytes;
  std::vector<std::byte> result(bytes);
  std::vector<Span> spans;
  for (const std::byte* input : inputs) spans.push_back({input, bytes});
  std::vector<View> views;
  for (const Span& span : spans) views.emplace_back(&span, 1);
  std::byte* const output = result.data();
  summation::Reduction reduction;
  reduction.type = type.element;
  reduction.operation = operation_of(operation.op);
  reduction.divisor = static_cast<std::uint32_t>(inputs.size());
  reduction.count = operation.count;
  reduction.inputs = views;
  reduction.outputs = std::span(&output, 1);
  summation::reduce(*summation::kernels(summation::Isa::kScalar), reduction);
  return result;
}

}  // namespace

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kReduceScatter:
      return "ncclReduceScatter";
    case Kind::kAllGather:
      return "ncclAllGather";
    case Kind::kReduce:
      return "ncclReduce";
    case Kind::kBroadcast:
      return "ncclBroadcast";
    case Kind::kAllReduce:
      break;
  }
  return "ncclAllReduce";
}

std::size_t bytes_of(DataType type) {
  return facts_of(type).bytes;
}

bool Operation::matches(const Operation& other) const {
  return kind == other.kind && count == other.count && type == other.type && op == other.op &&
         root == other.root;
}

std::string Operation::text() const {
  return std::string(name_of(kind)) + " of " + std::to_string(count) + " elements of type " +
         std::to_string(static_cast<unsigned>(type)) + ", operator " +
         std::to_string(static_cast<unsigned>(op)) + ", root " + std::to_string(root);
}

std::size_t Operation::in_bytes(int ranks) const {
  const std::size_t one = count * bytes_of(type);
  return kind == Kind::kReduceScatter ? one * static_cast<std::size_t>(ranks) : one;
}

std::size_t Operation::out_bytes(int ranks) const {
  const std::size_t one = count * bytes_of(type);
  return kind == Kind::kAllGather ? one * static_cast<std::size_t>(ranks) : one;
}

std::uint64_t Operation::sent_bytes(int rank, int ranks) const {
  const std::uint64_t one = count * bytes_of(type);
  if (ranks == 1) return 0;
  const auto others = static_cast<std::uint64_t>(ranks - 1);
  switch (kind) {
    case Kind::kReduceScatter:
    case Kind::kAllGather:
      return others * one;
    case Kind::kReduce:
      return rank == root ? 0 : one;
    case Kind::kBroadcast:
      return (rank + 1) % ranks == root ? 0 : one;
    case Kind::kAllReduce:
      break;
  }
  return 2 * others * one / static_cast<std::uint64_t>(ranks);
}

void perform(const std::vector<const Batch*>& batches, std::size_t index) {
  const Operation& first = (*batches.front())[index];
  const std::size_t ranks = batches.size();
  const std::size_t bytes = first.count * bytes_of(first.type);
  if (bytes == 0) return;
  std::vector<std::byte*> outs;
  std::vector<const std::byte*> ins;
  for (const Batch* batch : batches) {
    ins.push_back(cuda::host_view((*batch)[index].in));
    outs.push_back(cuda::host_view((*batch)[index].out));
  }
  const auto root = static_cast<std::size_t>(first.root);
  switch (first.kind) {
    case Kind::kReduceScatter:
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        std::vector<const std::byte*> parts;
        for (const std::byte* in : ins) parts.push_back(in + rank * bytes);
        std::memcpy(outs[rank], reduced(first, parts).data(), bytes);
      }
      break;
    case Kind::kAllGather:
      for (std::size_t from = 0; from < ranks; ++from) {
        for (std::byte* out : outs) {
          if (out + from * bytes != ins[from]) std::memmove(out + from * bytes, ins[from], bytes);
        }
      }
      break;
    case Kind::kReduce:
      std::memcpy(outs[root], reduced(first, ins).data(), bytes);
      break;
    case Kind::kBroadcast:
      for (std::byte* out : outs) {
        if (out != ins[root]) std::memmove(out, ins[root], bytes);
      }
      break;
    case Kind::kAllReduce: {
      const std::vector<std::byte> sum = reduced(first, ins);
      for (std::byte* out : outs) std::memcpy(out, sum.data(), bytes);
      break;
    }
  }
}

}  // namespace tally::test::nccl
