// A caller's operation, and the check whether it is valid.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "client/memory/region.h"
#include "dataplane/partition/collective.h"
#include "dataplane/wire/notice.h"

namespace tally::client {

// A region is null when the rank has no such buffer.
struct Post {
  wire::Notice notice;  // the caller sets kind, type, operation, tag, count, offsets, root,
                        // priority, deadline
  Region* in = nullptr;
  Region* out = nullptr;
  bool stats = false;
  bool preserve = false;  // in place: keep a copy of the contribution, so that a repair can use it
  std::uint64_t user = 0;
};

// The elements that the rank contributes and receives.
struct Extents {
  protocol::Extent in;
  protocol::Extent out;
};

// Returns whether the result lies over the contribution.
bool overlap(const Post& post, const Extents& extents);

// `checksums`: whether this rank gives checksums of its contributions. The error names the tag and
// the buffer.
Outcome check(const Post& post, const Extents& extents, bool checksums);

// The error of a post that no book takes: kDuplicate or kNoCredit. `credit` is the number of
// operations that a shard takes.
Error refusal(Status status, std::uint32_t tag, std::uint32_t credit);

}  // namespace tally::client
