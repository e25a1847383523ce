// Where checksums lie. A rank that gives checksums gives one for each granule of its contribution:
// 4096 bytes, counted from the operation's first byte, but cut where its contribution begins and
// ends and where its receivers change. Tiles begin and end on these cuts, so no granule lies in
// two. Clients and nodes share this code.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/block_stats.h"
#include "dataplane/protocol/collective.h"

namespace tally::protocol {

inline constexpr std::uint64_t kGranuleBytes = 4096;

// CRC32C, in the order of the granules, with the low byte first: as these machines have them.
using Checksum = std::uint32_t;
static_assert(std::endian::native == std::endian::little);

// Elements [run.first, run.first + run.count) of the operation, in terms of a rank's checksums.
struct Granules {
  std::uint64_t first = 0;  // number of the first one
  std::uint64_t count = 0;
  std::uint64_t lead = 0;  // bytes of the run that lie in the first one
};

// Precondition: the run is not empty, the rank contributes it, and its contributors and receivers
// are the same everywhere.
Granules granules_of(const Shape& shape, std::uint16_t rank, const Extent& run);

// Room for the checksums of a rank's contribution. (Few places in it may mean nothing.)
std::uint64_t checksum_bytes(const Shape& shape, std::uint16_t rank);

// Where they begin in the region that a notice names for what is beside the data: behind the
// statistics, if the rank wants these.
constexpr std::uint64_t checksums_offset(std::uint64_t count, bool wants_stats) {
  return wants_stats ? stats_blocks(count) * sizeof(BlockStats) : 0;
}

// Calls visit(number, offset, bytes) for each granule of the rank's contribution, with where it
// lies in that.
template <typename Visit>
void for_each_granule(const Shape& shape, std::uint16_t rank, Visit&& visit) {
  const std::uint64_t size = element_bytes(shape.type);
  const Extent whole = contribution(shape, rank);
  const std::uint64_t end = whole.first + whole.count;
  for (std::uint64_t element = whole.first; element < end;) {
    const std::uint64_t stop = std::min(stretch_at(shape, element).end, end);
    const Granules run = granules_of(shape, rank, {element, stop - element});
    std::uint64_t offset = (element - whole.first) * size;
    const std::uint64_t last = (stop - whole.first) * size;
    for (std::uint64_t i = 0; i < run.count; ++i) {
      const std::uint64_t bytes = std::min(i == 0 ? run.lead : kGranuleBytes, last - offset);
      visit(run.first + i, offset, bytes);
      offset += bytes;
    }
    element = stop;
  }
}

}  // namespace tally::protocol
