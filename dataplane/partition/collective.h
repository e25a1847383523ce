// Every range of an operation has contributors and receivers. Collectives differ in nothing else.
// This file knows the contributors and receivers of each collective. The rest of the protocol knows
// only ranges.
#pragma once

#include <cstdint>

#include "base/element.h"
#include "dataplane/wire/notice.h"

namespace tally::protocol {

// The fields of an operation that must be equal at all ranks.
struct Shape {
  wire::Kind kind = wire::Kind::kAllReduce;
  ElementType type = ElementType::kF32;
  Operation operation = Operation::kSum;
  std::uint16_t root = 0;
  std::uint16_t ranks = 1;
  std::uint64_t count = 0;
};

// All ranks, or one rank.
struct RankSet {
  bool all = true;
  std::uint16_t rank = 0;

  bool has(std::uint16_t r) const { return all || r == rank; }
  std::uint32_t size(std::uint16_t ranks) const { return all ? ranks : 1; }
};

// A run of elements with the same contributors and receivers.
struct Stretch {
  RankSet contributors;
  RankSet receivers;
  std::uint64_t end = 0;  // one past the last element, counted from the operation's first
};

// Returns the stretch that `element` lies in. Precondition: element < shape.count.
Stretch stretch_at(const Shape& shape, std::uint64_t element);

// The elements [first, first + count) of the operation. contribution() returns those in a rank's
// `in` buffer, and result() those in its `out` buffer. The count is 0 when the rank has no such
// buffer.
struct Extent {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};
Extent contribution(const Shape& shape, std::uint16_t rank);
Extent result(const Shape& shape, std::uint16_t rank);

// Returns whether the operation is worth nothing without this rank: the rank alone contributes or
// receives some of its elements.
bool needs(const Shape& shape, std::uint16_t rank);

// Returns the bytes that are read and stored for `elements` elements of the operation, over all
// ranks. Precondition: the operation has elements.
std::uint64_t traffic(const Shape& shape, std::uint64_t elements);

// The element type of a partial sum, the sum over some of the ranks. For sums and averages of f16
// and bf16 it is f32, so that the whole sum is rounded only once. Otherwise it is the operation's
// type.
ElementType partial_type(const Shape& shape);

// Returns whether the collective moves bytes and sums none. The bytes then arrive unchanged,
// including NaN payloads.
constexpr bool moves_only(wire::Kind kind) {
  return kind == wire::Kind::kBroadcast || kind == wire::Kind::kAllGather;
}

}  // namespace tally::protocol
