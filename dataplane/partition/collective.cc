#include "dataplane/partition/collective.h"

namespace tally::protocol {
namespace {

using wire::Kind;

// Returns the first element that `rank` owns in a scattered or gathered operation. The product
// stays below 2^58, because wire::kMaxBytes bounds the count and wire::kMaxRanks the rank.
std::uint64_t owned_from(const Shape& shape, std::uint32_t rank) {
  return shape.count * rank / shape.ranks;
}

Extent owned(const Shape& shape, std::uint16_t rank) {
  const std::uint64_t first = owned_from(shape, rank);
  return Extent{first, owned_from(shape, rank + 1u) - first};
}

std::uint16_t owner_of(const Shape& shape, std::uint64_t element) {
  auto rank = static_cast<std::uint32_t>(element * shape.ranks / shape.count);
  while (owned_from(shape, rank + 1) <= element) ++rank;  // the division may be one too small
  return static_cast<std::uint16_t>(rank);
}

}  // namespace

Stretch stretch_at(const Shape& shape, std::uint64_t element) {
  const RankSet all;
  const RankSet root{false, shape.root};
  switch (shape.kind) {
    case Kind::kReduce:
      return Stretch{all, root, shape.count};
    case Kind::kBroadcast:
      return Stretch{root, all, shape.count};
    case Kind::kReduceScatter:
    case Kind::kAllGather: {
      const RankSet owner{false, owner_of(shape, element)};
      const std::uint64_t end = owned_from(shape, owner.rank + 1u);
      return shape.kind == Kind::kReduceScatter ? Stretch{all, owner, end}
                                                : Stretch{owner, all, end};
    }
    case Kind::kAllReduce:
    case Kind::kBarrier:
    case Kind::kCancel:
      break;
  }
  return Stretch{all, all, shape.count};
}

bool needs(const Shape& shape, std::uint16_t rank) {
  switch (shape.kind) {
    case Kind::kReduce:
    case Kind::kBroadcast:
      return rank == shape.root;
    case Kind::kReduceScatter:
    case Kind::kAllGather:
      return owned(shape, rank).count > 0;
    case Kind::kAllReduce:
    case Kind::kBarrier:
    case Kind::kCancel:
      break;
  }
  return false;
}

std::uint64_t traffic(const Shape& shape, std::uint64_t elements) {
  // The numbers of contributors and receivers are the same in every stretch.
  const Stretch any = stretch_at(shape, 0);
  const std::uint64_t buffers =
      any.contributors.size(shape.ranks) + any.receivers.size(shape.ranks);
  return elements * element_bytes(shape.type) * buffers;
}

ElementType partial_type(const Shape& shape) {
  return moves_only(shape.kind) ? shape.type : tally::partial_type(shape.type, shape.operation);
}

Extent contribution(const Shape& shape, std::uint16_t rank) {
  if (shape.kind == Kind::kAllGather) return owned(shape, rank);
  if (shape.kind == Kind::kBroadcast && rank != shape.root) return Extent{};
  return Extent{0, shape.count};
}

Extent result(const Shape& shape, std::uint16_t rank) {
  if (shape.kind == Kind::kReduceScatter) return owned(shape, rank);
  if (shape.kind == Kind::kReduce && rank != shape.root) return Extent{};
  return Extent{0, shape.count};
}

}  // namespace tally::protocol
