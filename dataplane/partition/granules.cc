#include "dataplane/partition/granules.h"

namespace tally::protocol {
namespace {

// Every stretch has granules of its own, even when it begins within the 4096 bytes in which another
// stretch ends. Each number adds the number of earlier stretches, so no two granules have the same
// number.
std::uint64_t number_at(const Shape& shape, std::uint64_t element) {
  const Stretch stretch = stretch_at(shape, element);
  const std::uint16_t stretches = !stretch.receivers.all      ? stretch.receivers.rank
                                  : !stretch.contributors.all ? stretch.contributors.rank
                                                              : std::uint16_t{0};
  return element * element_bytes(shape.type) / kGranuleBytes + stretches;
}

}  // namespace

Granules granules_of(const Shape& shape, std::uint16_t rank, const Extent& run) {
  const std::uint64_t size = element_bytes(shape.type);
  const std::uint64_t begin = run.first * size;
  const std::uint64_t bytes = run.count * size;
  const std::uint64_t first = number_at(shape, run.first);
  Granules granules;
  granules.first = first - number_at(shape, contribution(shape, rank).first);
  granules.count = number_at(shape, run.first + run.count - 1) - first + 1;
  granules.lead = std::min(kGranuleBytes - begin % kGranuleBytes, bytes);
  return granules;
}

std::uint64_t checksum_bytes(const Shape& shape, std::uint16_t rank) {
  const Extent whole = contribution(shape, rank);
  if (whole.count == 0) return 0;
  const std::uint64_t last = number_at(shape, whole.first + whole.count - 1);
  return (last - number_at(shape, whole.first) + 1) * sizeof(Checksum);
}

}  // namespace tally::protocol
