// An operation as a caller gives it, and whether it can be one.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "client/region.h"
#include "dataplane/protocol/collective.h"
#include "dataplane/wire/notice.h"

namespace tally::client {

// Null regions where the rank has no buffer.
struct Post {
  wire::Notice notice;  // kind, type, operation, tag, count, offsets, root, priority, deadline
  Region* in = nullptr;
  Region* out = nullptr;
  bool stats = false;
  std::uint64_t user = 0;
};

// What the rank contributes and receives.
struct Extents {
  protocol::Extent in;
  protocol::Extent out;
};

// Do results land over inputs?
bool overlap(const Post& post, const Extents& extents);

// `checksums`: are they given of what the rank contributes? The message has the tag and the buffer.
Outcome check(const Post& post, const Extents& extents, bool checksums);

}  // namespace tally::client
