// The state of the buffers between a vertex's node and its parent's node (BufferLayout). Each
// request for a tile and each result that a parent hands down has a buffer of its own. The child
// answers each exactly once, also when the operation has failed. An up buffer is free again when
// the parent's tile has ended. A down buffer is free again when the answer has come.
#pragma once

#include <cstdint>
#include <vector>

#include "base/containers/ring.h"
#include "dataplane/protocol/job/vertex.h"
#include "dataplane/protocol/scheduling/tile.h"
#include "dataplane/wire/vertex.h"

namespace tally::protocol {

// The parent's side: the buffers in a child node's memory.
struct ChildBuffers {
  // In use from the request until the end of the tile.
  struct Up {
    PoolIndex operation = kNone;  // kNone when the buffer is free
    std::uint32_t handle = 0;
    std::uint32_t source = 0;  // index in the tile's sources
    std::uint64_t first = 0;
    bool answered = false;
  };

  // In use from the push until everything below the child node has the result.
  struct Down {
    bool passed = false;  // whether the shard has sent `result` to the child node
    std::uint32_t handle = 0;
    std::uint32_t index = 0;  // index in the tile's `below`
    PoolIndex operation = kNone;
    // When the shard hands on a result of its own parent: that parent, and this shard's buffer of
    // the result. At a root own_buffer is kNone.
    std::uint32_t parent = 0;
    std::uint32_t own_buffer = kNone;
    std::uint64_t bytes = 0;
    wire::VertexMessage result;  // the message to the child node
  };

  // A push that waits for a buffer: the state that the buffer will have.
  using Waiting = Down;

  ChildBuffers(const BufferLayout& layout, std::size_t most_waiting);

  std::vector<Up> up;
  std::vector<Down> down;
  // The outer index is the class.
  std::vector<std::vector<std::uint32_t>> free_up;
  std::vector<std::vector<std::uint32_t>> free_down;
  std::vector<std::vector<Waiting>> waiting;  // first come, first served
  std::uint32_t region = 0;  // the region of the buffers, as the child node's notice names it
};

// The child's side: this shard's own buffers for one parent.
struct ParentBuffers {
  // In use from the request until the answer.
  struct Up {
    bool used = false;
    PoolIndex next = kNone;  // the operation's next request
    wire::VertexMessage wanted;
  };

  struct Down {
    bool used = false;
    PoolIndex operation = kNone;
    // This shard's tile, and the child nodes below which the result is not everywhere yet.
    std::uint32_t pending = 0;
    wire::VertexMessage result;
  };

  explicit ParentBuffers(const BufferLayout& layout);

  ParentId parent_id = kNoParentId;
  bool gone = false;  // once true, it stays true
  std::uint32_t region = 0;
  std::vector<RingEntry> unsent;  // reports that wait for the parent to join
  std::vector<Up> up;
  std::vector<Down> down;
};

}  // namespace tally::protocol
