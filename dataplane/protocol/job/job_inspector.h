// What control reads of a shard's jobs: their state, their counters and their trace. It owns
// nothing, and changes nothing but the trace. It allocates, so it is off the path of operations.
// Everything runs in the shard's thread. Precondition of all functions: the job has been added.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/protocol/job/job_registry.h"
#include "dataplane/protocol/scheduling/tile_scheduler.h"

namespace tally::protocol {

// The children that an operation waits for. `tallyctl jobs` shows them.
struct Waiting {
  std::uint32_t tag = 0;
  std::uint32_t round = 0;
  std::vector<std::uint16_t> missing;  // ranks that announce here and have not
  // All ranks below child nodes that have not announced. At least one below each such child node is
  // missing.
  std::vector<std::uint16_t> missing_below;
  Nanos since = 0;
};

// An operation that has not ended, for post-mortem reports.
struct Outstanding {
  OperationKey key;
  std::uint16_t part = 0;
  OperationRecord::State state = OperationRecord::State::kGathering;
  wire::Kind kind = wire::Kind::kAllReduce;
  ElementType type = ElementType::kF32;
  std::uint64_t count = 0;  // elements of the part
  std::uint16_t first_rank = wire::kNoRank;
  std::uint16_t last_rank = wire::kNoRank;  // kNoRank: a child node
  Nanos notice = 0;
  Nanos last_notice = 0;
  std::uint32_t tiles_in_flight = 0;
  std::vector<std::uint16_t> missing;        // as in Waiting
  std::vector<std::uint16_t> missing_below;  // as in Waiting
};

// A rank's session, and its latest announcement here.
struct RankState {
  bool has_joined = false;  // its session is open
  bool is_gone = false;     // its session has ended
  std::uint32_t outstanding = 0;
  bool has_last = false;
  std::uint32_t last_tag = 0;
  std::uint32_t last_round = 0;
  Nanos last_notice = 0;
};

class JobInspector {
 public:
  // Borrows both.
  JobInspector(const JobRegistry& jobs, const TileScheduler& scheduler)
      : jobs_(jobs), scheduler_(scheduler) {}

  bool busy(JobId job) const { return jobs_[job].tiles > 0; }  // tiles are in flight
  bool is_slow(JobId job) const;  // or new beside others: it gets a small part of the window
  // Returns whether no buffer between this shard and other vertices is in use. Buffers of vertices
  // that are lost do not count.
  bool buffers_free(JobId job) const;
  std::uint32_t operations(JobId job) const { return jobs_[job].table.size(); }
  // Returns the operations that wait for children. Each operation is listed only in its home tree,
  // so only when this shard has a vertex of that tree.
  std::vector<Waiting> waiting(JobId job) const;
  // Returns at most `most` operations that have not ended, the oldest first.
  std::vector<Outstanding> outstanding(JobId job, std::size_t most) const;
  std::vector<RankState> rank_states(JobId job) const;
  // Return the counts from the moment when the job was added.
  const JobTotals& totals(JobId job) const { return jobs_[job].totals; }
  std::vector<RankCounters> rank_counters(JobId job) const;
  // Traces the operations that end from now on, and keeps the latest `records`; 0: ends the trace.
  void set_trace(JobId job, std::size_t records) const;
  TraceRing::Taken take_trace(JobId job) const;
  // Returns the latest operations that have ended, with or without a trace. It takes none from the
  // trace.
  std::vector<TraceRecord> latest(JobId job) const;

 private:
  const JobRegistry& jobs_;
  const TileScheduler& scheduler_;
};

}  // namespace tally::protocol
