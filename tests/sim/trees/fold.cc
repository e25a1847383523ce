#include "tests/sim/trees/fold.h"

#include <cstring>

#include "dataplane/partition/collective.h"
#include "summation/scalar.h"

namespace tally::sim::trees {
namespace {

namespace scalar = summation::scalar;

struct Fold {
  ElementType type = ElementType::kF32;          // of the inputs
  ElementType partial_type = ElementType::kF32;  // of the partial sums
  ElementType result_type = ElementType::kF32;   // one of both
  Operation operation = Operation::kSum;
  std::uint32_t divisor = 1;
  std::uint64_t count = 0;
  std::span<const std::byte* const> inputs;
  std::span<const std::byte* const> partials;
  std::byte* result = nullptr;
};

template <typename T>
T load(const std::byte* from, std::uint64_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void store(std::byte* to, std::uint64_t index, T value) {
  std::memcpy(to + index * sizeof(T), &value, sizeof(T));
}

template <ElementType Type, Operation Op>
void fold_all(const Fold& what) {
  using E = scalar::Element<Type>;
  using Stored = typename E::Stored;
  using Wide = typename E::Wide;
  for (std::uint64_t i = 0; i < what.count; ++i) {
    bool any = false;
    Wide sum{};
    const auto step = [&](Wide value) {
      sum = any ? scalar::Fold<Op>::step(sum, value) : value;
      any = true;
    };
    for (const std::byte* input : what.inputs) step(E::widen(load<Stored>(input, i)));
    for (const std::byte* partial : what.partials) {
      step(what.partial_type == Type ? E::widen(load<Stored>(partial, i)) : load<Wide>(partial, i));
    }
    if (what.result_type == Type) {
      store<Stored>(what.result, i, E::round(scalar::Fold<Op>::end(sum, what.divisor)));
    } else {
      if constexpr (std::is_floating_point_v<Wide>) sum = scalar::canonical(sum);
      store<Wide>(what.result, i, sum);
    }
  }
}

template <ElementType Type>
void fold_type(const Fold& what) {
  switch (what.operation) {
    case Operation::kSum:
      return fold_all<Type, Operation::kSum>(what);
    case Operation::kAverage:
      return fold_all<Type, Operation::kAverage>(what);
    case Operation::kMin:
      return fold_all<Type, Operation::kMin>(what);
    case Operation::kMax:
      return fold_all<Type, Operation::kMax>(what);
  }
}

void fold(const Fold& what) {
  switch (what.type) {
    case ElementType::kF32:
      return fold_type<ElementType::kF32>(what);
    case ElementType::kF64:
      return fold_type<ElementType::kF64>(what);
    case ElementType::kF16:
      return fold_type<ElementType::kF16>(what);
    case ElementType::kBf16:
      return fold_type<ElementType::kBf16>(what);
    case ElementType::kI8:
      return fold_type<ElementType::kI8>(what);
    case ElementType::kU8:
      return fold_type<ElementType::kU8>(what);
    case ElementType::kI32:
      return fold_type<ElementType::kI32>(what);
    case ElementType::kI64:
      return fold_type<ElementType::kI64>(what);
  }
}

// What a vertex sends up, or, at the root, the result.
std::vector<std::byte> fold_vertex(const Tree& tree, std::uint32_t index,
                                   const protocol::Shape& shape,
                                   std::span<const std::byte* const> inputs, std::uint64_t first,
                                   std::uint64_t count) {
  const TreeVertex& vertex = tree[index];
  std::vector<std::vector<std::byte>> sums;
  std::vector<const std::byte*> mine;
  std::vector<const std::byte*> partials;
  for (const std::uint16_t rank : vertex.ranks) {
    mine.push_back(inputs[rank] + first * element_bytes(shape.type));
  }
  for (const std::uint32_t child_node : vertex.child_nodes) {
    sums.push_back(fold_vertex(tree, child_node, shape, inputs, first, count));
    partials.push_back(sums.back().data());
  }
  const bool root = vertex.parent == kNone;
  Fold what;
  what.type = shape.type;
  what.partial_type = protocol::partial_type(shape);
  what.result_type = root ? what.type : what.partial_type;
  what.operation = shape.operation;
  if (!root && what.operation == Operation::kAverage) what.operation = Operation::kSum;
  what.divisor = shape.ranks;
  what.count = count;
  what.inputs = mine;
  what.partials = partials;
  std::vector<std::byte> result(count * element_bytes(what.result_type));
  what.result = result.data();
  fold(what);
  return result;
}

}  // namespace

std::vector<std::byte> fold_tree(const Tree& tree, const protocol::Shape& shape,
                                 std::span<const std::byte* const> inputs, std::uint64_t first,
                                 std::uint64_t count) {
  return fold_vertex(tree, 0, shape, inputs, first, count);
}

}  // namespace tally::sim::trees
