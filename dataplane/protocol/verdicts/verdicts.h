// How operations end. A failure stops an operation. Its verdict is final at the root, or where the
// parent is gone; elsewhere the parent decides. An operation ends when no tile of it is in flight:
// all members get its completion, and the job keeps a failure for late children. The state is in
// the operation's record. Other units report events that end or fail an operation. Everything runs
// in the shard's thread.
#pragma once

#include <cstdint>

#include "dataplane/protocol/job/job.h"
#include "dataplane/protocol/job/outbox.h"
#include "dataplane/protocol/scheduling/backlog.h"
#include "dataplane/protocol/scheduling/pacer.h"
#include "dataplane/protocol/tree/child_nodes.h"
#include "dataplane/protocol/tree/parent_nodes.h"

namespace tally::protocol {

class Verdicts {
 public:
  // Borrows all.
  Verdicts(Outbox& outbox, TileScheduler& scheduler, Pacer& pacer, Backlog& backlog,
           ParentNodes& parents, ChildNodes& children)
      : outbox_(outbox),
        scheduler_(scheduler),
        pacer_(pacer),
        backlog_(backlog),
        parents_(parents),
        children_(children) {}

  // The operation has failed here. Below a parent the vertex reports it, and starts no more tiles
  // until the verdict comes. Precondition: the operation is open.
  void fail(Job& job, PoolIndex index, const Verdict& verdict, Nanos now);
  // Fails all open operations of the job.
  void fail_all(Job& job, const Verdict& verdict, Nanos now);
  // Ends the operation with this verdict, because no parent decides.
  void give_up(Job& job, PoolIndex index, const Verdict& verdict, Nanos now);
  // Ends the operation when its last tile has ended, and its results are placed everywhere.
  void conclude_if_over(Job& job, PoolIndex index, Nanos now);
  // Ends the operation, in both trees of a root with two. Precondition: no tile of it is in flight.
  void conclude(Job& job, PoolIndex index, Nanos now);

  // -- verdicts of other vertices
  // A child node reports that an operation has failed.
  Status reported(Job& job, std::uint16_t child, const wire::Completion& report, Nanos now);
  // A parent gives the verdict for all ranks.
  Status judged(Job& job, std::uint32_t parent, const wire::Completion& completion, Nanos now);
  // A child node has joined: sends the failures that it has missed.
  void joined(Job& job, std::uint16_t child);

 private:
  static PoolIndex open_failed(Job& job, const OperationKey& key, std::uint16_t vertex,
                               std::uint16_t part, Nanos now);
  static PoolIndex open_failed_one(Job& job, const OperationKey& key, std::uint16_t vertex,
                                   std::uint16_t part, Nanos now);
  void end(Job& job, PoolIndex index, Nanos now);
  void stop(Job& job, PoolIndex index);
  void finish(Job& job, PoolIndex index, const Verdict& verdict, Nanos now);

  Outbox& outbox_;
  TileScheduler& scheduler_;
  Pacer& pacer_;
  Backlog& backlog_;
  ParentNodes& parents_;
  ChildNodes& children_;
};

}  // namespace tally::protocol
