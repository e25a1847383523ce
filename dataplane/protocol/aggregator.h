// The protocol of one shard. It takes events and `now`. It returns tiles to move, completions, and
// messages to other vertices. It knows no transport, no memory and no clock. So a test can drive
// whole jobs through it in one thread.
//
// An operation goes through these steps. The engine calls announce() for every child's notice. When
// all notices have come, the operation is ready. The rest happens at the root, which is the only
// vertex of a star. Tiles::start_tile() returns the tiles one by one, in the order that the
// scheduler decides. The engine pulls, sums and pushes each tile, group by group, and calls
// Tiles::end_tile(). After the last tile the outbox has every rank's completion. A failure gives
// one verdict, which is the same for all ranks. It comes when no tile of the operation is in
// flight.
//
// At any other vertex the parent decides. The vertex announces to its parent that it is ready, sums
// the tiles that the parent requests, and reports failures. The verdict comes from the parent. See
// docs/protocol.md, "Between vertices".
//
// The Aggregator owns the jobs and the units of the protocol, and hands each event to the unit that
// decides about it:
//   matching/matching.h     announcements become operations
//   tiles/tiles.h           operations become tiles, and tiles end
//   verdicts/verdicts.h     how operations end; losses.h and deadlines.h are reasons for failures
//   tree/child_nodes.h      the shard as a parent, and tree/parent_nodes.h as a child; a star does
//                           without both
//   outbox.h                everything that the engine sends
#pragma once

#include <cstdint>

#include "dataplane/protocol/job/config.h"
#include "dataplane/protocol/job/job_inspector.h"
#include "dataplane/protocol/job/job_registry.h"
#include "dataplane/protocol/job/outbox.h"
#include "dataplane/protocol/matching/matching.h"
#include "dataplane/protocol/tiles/tiles.h"
#include "dataplane/protocol/verdicts/deadlines.h"
#include "dataplane/protocol/verdicts/losses.h"
#include "dataplane/protocol/verdicts/stalls.h"

namespace tally::protocol {

class Aggregator {
 public:
  explicit Aggregator(AggregatorConfig config);

  // -- control: allocates, off the path --------------------------------------------------------
  // Precondition of all these functions: for add_job(), `job` is free; for the others, it has been
  // added.
  void add_job(JobId job, const JobSpec& spec);
  // Returns the bytes that the state of such a job takes here. Admission reserves them.
  static std::uint64_t footprint(const JobSpec& spec) { return Job::footprint(spec); }
  // Precondition: the job has no member left, and no tile in flight. Messages that it has not sent
  // yet are dropped. Its parents' numbers belong to no job afterwards.
  void remove_job(JobId job);
  // The rank's session has begun, and the rank may announce. Child node i joins as rank `ranks +
  // i`. Precondition: the rank has no session.
  void join(JobId job, std::uint16_t rank, SessionId member);
  // The session with a parent has begun. `region`: the region of this shard's buffers, as the
  // parent knows it.
  void join_parent(JobId job, std::uint32_t parent, ParentId parent_id, std::uint32_t region,
                   Nanos now);
  const JobInspector& inspect() const { return inspector_; }
  // Returns which of the job's operations does not go on, and why.
  Health health(JobId job, Nanos now, const Awaited& awaited) const {
    return health_of(jobs_[job], now, awaited);
  }

  // -- events ----------------------------------------------------------------------------------
  // A child announces an operation. `admissible`: the transport's answer for the regions of the
  // notice, kOk or the reason why not. A child node announces with a partial notice.
  void announce(SessionId member, const wire::Notice& notice, Status admissible, Nanos now);
  // Returns the places of the bytes that the member's notice names. The caller asks the transport
  // about them, which gives `admissible`. When the member has no job, all Endpoints are empty.
  Extents extents(SessionId member, const wire::Notice& notice) const;
  // The session of a rank or child node has ended (kPeerLost, kPeerLeft). All outstanding
  // operations of the job fail, and so do later ones. The rank may never have joined. A second call
  // does nothing.
  void gone(JobId job, std::uint16_t rank, Status why, Nanos now);
  void gone(SessionId member, Status why, Nanos now);
  // A message other than a notice, from a child node or a parent. Returns kOk, or an error when the
  // sender broke the protocol and the caller must disconnect it. From a rank every such message is
  // an error.
  Status handle_child_message(SessionId child_node, const RingEntry& message, Nanos now);
  Status handle_parent_message(ParentId parent, const RingEntry& message, Nanos now);
  // The session with a parent has ended. All outstanding operations of the job fail, and so do
  // later ones.
  void parent_gone(ParentId parent, Status why, Nanos now);
  // Gives verdicts on operations that are past their deadline, and finds slow jobs.
  void expire(Nanos now);
  Nanos next_deadline() const;
  // The tiles of this stuck operation wait for this peer.
  void waited_for(const Stuck& stuck, SessionId member);

  // -- tiles and messages ----------------------------------------------------------------------
  Tiles& tiles() { return tiles_; }
  const Tiles& tiles() const { return tiles_; }
  Outbox& outbox() { return outbox_; }
  const Outbox& outbox() const { return outbox_; }

 private:
  void reserve();

  const AggregatorConfig config_;
  TileScheduler scheduler_;
  Pacer pacer_;
  TileSizing sizing_;
  Backlog backlog_;
  JobRegistry jobs_;
  Outbox outbox_;
  // Each unit knows only those before it.
  ParentNodes parents_;
  ChildNodes children_;
  Verdicts verdicts_;
  Losses losses_;
  Deadlines deadlines_;
  Matching matching_;
  Tiles tiles_;
  JobInspector inspector_;
};

}  // namespace tally::protocol
