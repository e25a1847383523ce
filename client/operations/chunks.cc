#include "client/operations/chunks.h"

#include <fmt/format.h>

#include <algorithm>

namespace tally::client {
namespace {

// A chunk of 512 KiB takes 10 to 20 us on a bus of 25 to 50 GB/s, and its copies and waits cost the
// host about 5 us (estimated; no GPU has run this). Large operations have 16 chunks or more, so
// that the first and the last copy, which nothing overlaps, are a small part of the time.
constexpr std::uint64_t kLeastBytes = 512 << 10;
constexpr std::uint64_t kUsualBytes = 4 << 20;
constexpr std::uint64_t kUsualCount = 16;
// Chunks begin at multiples of this many elements, for aligned copies.
constexpr std::uint64_t kAlignment = 1024;

// A scattered or gathered operation has at least one chunk for each rank, and a tag has numbers for
// kMost chunks.
static_assert(Chunks::kMost >= wire::kMaxRanks);

std::uint64_t divide_up(std::uint64_t value, std::uint64_t by) {
  return (value + by - 1) / by;
}

std::uint32_t chunks_of(std::uint64_t bytes, std::uint32_t most) {
  const std::uint64_t chunk = std::clamp(bytes / kUsualCount, kLeastBytes, kUsualBytes);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(divide_up(bytes, chunk), 1, most));
}

bool has_owners(const protocol::Shape& shape) {
  return shape.kind == wire::Kind::kReduceScatter || shape.kind == wire::Kind::kAllGather;
}

// Where part `index` of `parts` begins in `count` elements.
std::uint64_t begin_of(std::uint64_t count, std::uint64_t index, std::uint64_t parts) {
  if (index == parts) return count;
  const std::uint64_t units = divide_up(count, kAlignment);
  return std::min(count, units * index / parts * kAlignment);
}

}  // namespace

Chunks::Chunks(const protocol::Shape& shape, std::uint32_t tag) : shape_(shape), tag_(tag) {
  const std::uint64_t bytes = shape.count * element_bytes(shape.type);
  const std::uint32_t whole = chunks_of(bytes, kMost);
  if (whole == 1) return;
  if (!has_owners(shape)) {
    per_share_ = whole;
    return;
  }
  shares_ = shape.ranks;
  per_share_ = std::max(1U, std::min(whole / shares_, kMost / shares_));
}

Outcome Chunks::check() const {
  if (size() == 1 ? tag_ < kFirstTag : tag_ < kTagLimit) return Unit{};
  return invalid(
      fmt::format("tag {}: must be below {} for an operation of {} elements on memory of a device, "
                  "because its chunks have tags of their own",
                  tag_, size() == 1 ? kFirstTag : kTagLimit, shape_.count));
}

Chunk Chunks::operator[](std::uint32_t index) const {
  Chunk chunk{shape_, 0, index == 0 ? tag_ : kFirstTag | tag_ * kMost | index};
  if (size() == 1) return chunk;
  const std::uint32_t share = index / per_share_;
  const std::uint32_t part = index % per_share_;
  std::uint64_t share_begin = 0;
  std::uint64_t share_count = shape_.count;
  if (has_owners(shape_)) {
    const bool scatters = shape_.kind == wire::Kind::kReduceScatter;
    chunk.shape.kind = scatters ? wire::Kind::kReduce : wire::Kind::kBroadcast;
    chunk.shape.root = static_cast<std::uint16_t>(share);
    protocol::Shape gathered = shape_;
    gathered.kind = wire::Kind::kAllGather;
    const auto owned = protocol::contribution(gathered, chunk.shape.root);
    share_begin = owned.first;
    share_count = owned.count;
  }
  const std::uint64_t begin = begin_of(share_count, part, per_share_);
  chunk.first = share_begin + begin;
  chunk.shape.count = begin_of(share_count, part + 1, per_share_) - begin;
  return chunk;
}

}  // namespace tally::client
