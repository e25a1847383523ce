// Checks pulled bytes against the checksums that their owner gave.
#pragma once

#include "base/crc32c.h"
#include "base/view.h"
#include "dataplane/partition/granules.h"

namespace tally::engine {

// Returns true when all bytes match their checksums. `checksums` has one checksum for each granule
// of `bytes`. The first granule has `lead` bytes of them. `streamed` means that the bytes come from
// DRAM.
bool intact(const Crc32c& crc32c, View bytes, View checksums, std::uint64_t lead, bool streamed);

}  // namespace tally::engine
