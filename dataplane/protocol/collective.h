// Every range of an operation has contributors and receivers; collectives differ in nothing else.
// This file knows which; the rest of the protocol knows only ranges.
#pragma once

#include <cstdint>

#include "base/element.h"
#include "dataplane/wire/notice.h"

namespace tally::protocol {

// What all ranks have to agree about.
struct Shape {
  wire::Kind kind = wire::Kind::kAllReduce;
  ElementType type = ElementType::kF32;
  Operation operation = Operation::kSum;
  std::uint16_t root = 0;
  std::uint16_t ranks = 1;
  std::uint64_t count = 0;
};

// All ranks, or one.
struct RankSet {
  bool all = true;
  std::uint16_t rank = 0;

  bool has(std::uint16_t r) const { return all || r == rank; }
  std::uint32_t size(std::uint16_t ranks) const { return all ? ranks : 1; }
};

// Consecutive elements with the same contributors and receivers.
struct Stretch {
  RankSet contributors;
  RankSet receivers;
  std::uint64_t end = 0;  // one past the last element, of the operation
};

// The stretch that `element` lies in. Precondition: element < shape.count.
Stretch stretch_at(const Shape& shape, std::uint64_t element);

// The elements that a rank's contribution (its `in` buffer) and its result (its `out` buffer) stand
// for: [first, first + count) of the operation. Count 0: it has none.
struct Extent {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};
Extent contribution(const Shape& shape, std::uint16_t rank);
Extent result(const Shape& shape, std::uint16_t rank);

// Bytes that are read and stored for so many of its elements, over all ranks. Precondition: it has
// elements.
std::uint64_t traffic(const Shape& shape, std::uint64_t elements);

// Of a sum over some of the ranks, on its way to the others': f32 where the elements are f16 or
// bf16, so that the whole is rounded once.
ElementType partial_type(const Shape& shape);

// True where bytes are moved and not summed: they arrive unchanged, NaN payloads included.
constexpr bool moves_only(wire::Kind kind) {
  return kind == wire::Kind::kBroadcast || kind == wire::Kind::kAllGather;
}

}  // namespace tally::protocol
