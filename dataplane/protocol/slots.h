// The books of the slots between a vertex's node and its parent's (SlotLayout): who uses which one.
// Every request for a tile and every result that is handed down has one of its own, and is answered
// exactly once, failed operations' too; then it is free again.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ring.h"
#include "dataplane/protocol/tile.h"
#include "dataplane/protocol/vertex.h"
#include "dataplane/wire/vertex.h"

namespace tally::protocol {

// The parent's side: slots in a branch's memory.
struct BranchSlots {
  // From the request until the end of the tile.
  struct Up {
    Slot operation = kNone;  // kNone: free
    std::uint32_t handle = 0;
    std::uint32_t source = 0;  // of the tile
    std::uint64_t first = 0;
    bool answered = false;
  };

  // From the push until everything below the branch has it.
  struct Down {
    bool passed = false;  // the branch has been told
    std::uint32_t handle = 0;
    std::uint32_t index = 0;  // of the tile's `below`
    Slot operation = kNone;
    // Of a result that is handed on: whose it is, and the slot where it stands. A root has none.
    std::uint32_t parent = 0;
    std::uint32_t own_slot = kNone;
    std::uint64_t bytes = 0;
    wire::VertexMessage result;  // what the branch is told
  };

  // A tile that waits for a slot to push to. What it will be.
  using Waiting = Down;

  BranchSlots(const SlotLayout& layout, std::size_t most_waiting);

  std::vector<Up> up;
  std::vector<Down> down;
  // By class.
  std::vector<std::vector<std::uint32_t>> free_up;
  std::vector<std::vector<std::uint32_t>> free_down;
  std::vector<std::vector<Waiting>> waiting;  // first come, first served
  std::uint32_t region = 0;                   // where they lie, as the branch says
};

// The child's side: this shard's own slots, for one parent.
struct ParentSlots {
  // From the request until its answer.
  struct Up {
    bool used = false;
    Slot next = kNone;  // the operation's next request
    wire::VertexMessage wanted;
  };

  struct Down {
    bool used = false;
    Slot operation = kNone;
    std::uint32_t pending = 0;  // this shard's tile, and branches that do not have it yet
    wire::VertexMessage result;
  };

  explicit ParentSlots(const SlotLayout& layout);

  Link link = kNoLink;
  bool gone = false;  // for good
  std::uint32_t region = 0;
  std::vector<RingSlot> unsent;  // reports that it is to be told when it is there
  std::vector<Up> up;
  std::vector<Down> down;
};

}  // namespace tally::protocol
