// Matches announcements to operations. A child's notice opens an operation or joins the open one of
// its key. When all children of the vertex have announced it, the operation is ready: the root
// gives it to the scheduler, and any other vertex announces it to its parent. A notice that cannot
// belong to an operation gets its answer at once. The operations are in Job::table, which has room
// for all notices within credit. Everything runs in the shard's thread.
#pragma once

#include <cstdint>

#include "dataplane/protocol/job/config.h"
#include "dataplane/protocol/job/job_registry.h"
#include "dataplane/protocol/job/outbox.h"
#include "dataplane/protocol/scheduling/backlog.h"
#include "dataplane/protocol/scheduling/tile_sizing.h"
#include "dataplane/protocol/tree/child_nodes.h"
#include "dataplane/protocol/tree/parent_nodes.h"
#include "dataplane/protocol/verdicts/verdicts.h"
#include "dataplane/wire/notice.h"

namespace tally::protocol {

// The places of the bytes that a notice names. An Endpoint with bytes == 0 needs no region.
struct Extents {
  Endpoint in;
  Endpoint out;
  Endpoint side;  // statistics, then checksums
};

// Returns the extents of a notice of this child, whose session is `member`.
Extents extents_of(const Job& job, std::uint16_t child, SessionId member,
                   const wire::Notice& notice);

class Matching {
 public:
  // Borrows all.
  Matching(const AggregatorConfig& config, Outbox& outbox, TileScheduler& scheduler,
           TileSizing& sizing, Backlog& backlog, Verdicts& verdicts, ParentNodes& parents)
      : config_(config),
        outbox_(outbox),
        scheduler_(scheduler),
        sizing_(sizing),
        backlog_(backlog),
        verdicts_(verdicts),
        parents_(parents) {}

  // A child announces an operation, or cancels it. `admissible`: kOk, or the reason why the regions
  // of the notice must not be used.
  void announce(Job& job, std::uint16_t child, const wire::Notice& notice, Status admissible,
                Nanos now);

 private:
  void cancel(Job& job, std::uint16_t child, const wire::Notice& notice, Nanos now);
  void reply(Job& job, std::uint16_t child, const wire::Notice& notice, const Verdict& verdict,
             Nanos elapsed);
  PoolIndex open(Job& job, const OperationKey& key, std::uint16_t vertex,
                 const wire::Notice& notice, std::uint16_t child, Nanos now);
  PoolIndex open_one(Job& job, const OperationKey& key, std::uint16_t vertex,
                     const wire::Notice& notice, std::uint16_t child, Nanos now);
  void came_late(Job& job, PoolIndex index, std::uint16_t child, const wire::Notice& notice,
                 Nanos now);
  Nanos deadline_of(const wire::Notice& notice, Nanos now) const;
  static void become_active(Job& job, PoolIndex index);
  void become_ready(Job& job, PoolIndex index, Nanos now);
  void start(Job& job, PoolIndex index, Nanos now);

  const AggregatorConfig& config_;
  Outbox& outbox_;
  TileScheduler& scheduler_;
  TileSizing& sizing_;
  Backlog& backlog_;
  Verdicts& verdicts_;
  ParentNodes& parents_;
  std::uint64_t age_ = 0;  // operations that have become ready
};

}  // namespace tally::protocol
