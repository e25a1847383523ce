// The places of checksums. A rank that gives checksums gives one for each granule of its
// contribution. A granule is 4096 bytes, counted from the operation's first byte. It is cut where
// the contribution begins and ends, and where its receivers change. Tiles begin and end between
// granules, so no granule lies in two tiles. Clients and nodes share this code.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/block_stats.h"
#include "dataplane/partition/collective.h"

namespace tally::protocol {

inline constexpr std::uint64_t kGranuleBytes = 4096;

// CRC32C (RFC 3720). The checksums lie in the order of the granules, each with the low byte first,
// which is the byte order of these machines.
using Checksum = std::uint32_t;
static_assert(std::endian::native == std::endian::little);

// The granules of the elements [run.first, run.first + run.count) of the operation, numbered as a
// rank's checksums are.
struct Granules {
  std::uint64_t first = 0;  // number of the run's first granule
  std::uint64_t count = 0;
  std::uint64_t lead = 0;  // bytes of the run that lie in its first granule
};

// Preconditions: the run is not empty, and the rank contributes to it. All elements of the run have
// the same contributors and receivers.
Granules granules_of(const Shape& shape, std::uint16_t rank, const Extent& run);

// Returns the bytes that hold the checksums of a rank's contribution. Some of the checksums may
// belong to no granule.
std::uint64_t checksum_bytes(const Shape& shape, std::uint16_t rank);

// Returns the byte offset of the checksums in the side region, the region that a notice names for
// statistics and checksums. The checksums lie behind the statistics when the rank wants these.
// `count`: elements of the operation.
constexpr std::uint64_t checksums_offset(std::uint64_t count, bool wants_stats) {
  return wants_stats ? stats_blocks(count) * sizeof(BlockStats) : 0;
}

// Calls visit(number, offset, bytes) for each granule of the rank's contribution. `offset` counts
// bytes from the beginning of the contribution.
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
