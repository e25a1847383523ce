// Writes a contribution's checksums as a client does.
#pragma once

#include <cstring>

#include "base/crc32c.h"
#include "dataplane/partition/granules.h"

namespace tally::testing {

inline void write_checksums(const protocol::Shape& shape, std::uint16_t rank,
                            const std::byte* contribution, std::byte* to) {
  const Crc32c& crc32c = **Crc32c::open();
  protocol::for_each_granule(shape, rank, [&](auto number, auto at, auto bytes) {
    const protocol::Checksum checksum = crc32c({contribution + at, bytes});
    std::memcpy(to + number * sizeof checksum, &checksum, sizeof checksum);
  });
}

}  // namespace tally::testing
