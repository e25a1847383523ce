// Whether bytes that were pulled are those that their owner gave checksums for.
#pragma once

#include "base/crc32c.h"
#include "base/view.h"
#include "dataplane/protocol/granules.h"

namespace tally::engine {

// `checksums`: one for each granule of `bytes`, `lead` bytes of which lie in the first. `streamed`:
// the bytes come from DRAM.
bool intact(const Crc32c& crc32c, View bytes, View checksums, std::uint64_t lead, bool streamed);

}  // namespace tally::engine
