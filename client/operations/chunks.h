// An operation on memory of a device is made of chunks, so that one chunk is copied from the device
// while others are summed and copied back. Each chunk is an operation of its own for the nodes. The
// division depends on the operation alone, so all ranks divide alike. Pure.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "dataplane/partition/collective.h"

namespace tally::client {

struct Chunk {
  protocol::Shape shape;    // count: elements of the chunk
  std::uint64_t first = 0;  // of the operation's elements
  std::uint32_t tag = 0;
};

class Chunks {
 public:
  // Chunk 0 has the tag of the operation. Others have tags from kFirstTag on, so that they never
  // collide with tags below it.
  static constexpr std::uint32_t kFirstTag = 1U << 31;
  static constexpr std::uint32_t kMost = 1U << 10;
  // Tags of operations that have more than one chunk are below this.
  static constexpr std::uint32_t kTagLimit = kFirstTag / kMost;

  // The operation's tag, and the index of the chunk, of a chunk's tag.
  struct ChunkId {
    std::uint32_t tag = 0;
    std::uint32_t index = 0;
  };
  static ChunkId chunk_id_of(std::uint32_t tag) {
    if (tag < kFirstTag) return {tag, 0};
    return {(tag - kFirstTag) / kMost, tag % kMost};
  }

  Chunks(const protocol::Shape& shape, std::uint32_t tag);

  // kInvalidArgument when the tag leaves no room for tags of the chunks.
  Outcome check() const;

  // At least 1, also for an operation without elements.
  std::uint32_t size() const { return shares_ * per_share_; }
  // A scattered or gathered operation of several chunks has chunks that are a reduce to, or a
  // broadcast from, the rank that owns their elements.
  Chunk operator[](std::uint32_t index) const;

 private:
  protocol::Shape shape_;
  std::uint32_t tag_;
  std::uint32_t shares_ = 1;  // runs of elements with one owner
  std::uint32_t per_share_ = 1;
};

}  // namespace tally::client
