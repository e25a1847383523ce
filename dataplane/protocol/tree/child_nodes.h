// This shard as a parent: its vertices' child nodes. It requests partial sums from them, hands
// results down to them, and chooses the buffer in the child node's memory for each. A buffer is in
// use until the child node has answered. The state of the buffers is in Job::child_nodes. A child
// node that breaks the protocol gets Status::kProtocol. Everything runs in the shard's thread.
#pragma once

#include <cstdint>

#include "dataplane/partition/collective.h"
#include "dataplane/protocol/job/job.h"
#include "dataplane/protocol/job/outbox.h"
#include "dataplane/protocol/tree/parent_nodes.h"

namespace tally::protocol {

class ChildNodes {
 public:
  // Borrows both.
  ChildNodes(Outbox& outbox, ParentNodes& parents) : outbox_(outbox), parents_(parents) {}

  // Sends a message to a child node; does nothing when it has not joined, or is gone.
  void send(const Job& job, std::uint16_t child, const RingEntry& message) {
    outbox_.send_down(job.members[child].member, message);
  }
  // Sends the end of an operation to all child nodes of its vertex.
  void notify(Job& job, PoolIndex index, wire::Completion completion);
  // Sends the job's loss to all its child nodes except one.
  void send_broken(const Job& job, SessionId except);
  // Asks the operation's child nodes that have not announced it which of their ranks are missing.
  void ask_missing(const Job& job, PoolIndex index);

  // -- partial sums
  // Requests them for a tile, and adds them to its sources. Precondition: fewer tiles of this job
  // and class are in flight than there are buffers.
  void request(Job& job, const OperationRecord& operation, const Stretch& stretch, Tile& tile);
  Status tile_ready(Job& job, std::uint16_t child, const wire::VertexMessage& message);
  // The tile's partial sums have been read, or are not needed.
  static void release_up(Job& job, const Tile& tile);

  // -- results
  // Adds the child nodes that get the tile's result to tile.below.
  static void add_below(const Job& job, const OperationRecord& operation, const Stretch& stretch,
                        Tile& tile);
  // Asks for a buffer for the result of tile.below[index]. The tile gets an event when there is
  // one. `own_buffer`: this shard's buffer of the result, when `parent` has handed it down.
  void hand_down(Job& job, const Tile& tile, std::uint32_t index, std::uint32_t parent,
                 std::uint32_t own_buffer);
  // The result is in the buffer.
  void passed_down(Job& job, Tile& tile, std::uint32_t index);
  // A child node has a result everywhere. Sets `operation` to the one of which this vertex, as the
  // root, waits for one result less; the caller must look whether it is over. Else sets kNone.
  Status tile_placed(Job& job, std::uint16_t child, const wire::VertexMessage& message,
                     PoolIndex& operation);
  // The tile has failed: releases its buffers in which nothing was handed down.
  void release_down(Job& job, const Tile& tile);

  // -- failures
  // The tiles of a failed operation no longer wait for buffers.
  void stop_waiting(Job& job, PoolIndex index);
  // A failed operation has its verdict. The results that child nodes still have belong to none.
  static void disown(Job& job, PoolIndex index);
  // The child node is gone: nothing comes from it. Its operations have failed already.
  void drop(Job& job, std::uint16_t child, Status why);

 private:
  void refuse_push(Job& job, const ChildBuffers::Waiting& push, Status status);
  void grant(Job& job, std::uint16_t child, std::uint32_t cls);
  void release(Job& job, std::uint16_t child, std::uint32_t buffer);
  void release_down(Job& job, const Below& below);
  PoolIndex placed(Job& job, const ChildBuffers::Down& down);

  Outbox& outbox_;
  ParentNodes& parents_;
};

}  // namespace tally::protocol
