// A job at one shard: its ranks, its operations, and what becomes of it when a rank goes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/protocol/aggregator.h"
#include "dataplane/protocol/deadline_heap.h"
#include "dataplane/protocol/job_metrics.h"
#include "dataplane/protocol/operation_table.h"

namespace tally::protocol {

struct RankState {
  Member member = kNoMember;
  std::uint32_t outstanding = 0;
  bool gone = false;      // for good
  bool has_last = false;  // last_tag and last_round: its latest announcement
  std::uint32_t last_tag = 0;
  std::uint32_t last_round = 0;
  RankCounters counters;
};

struct Aggregator::Job {
  Job(JobSlot job_slot, const JobSpec& job_spec)
      : slot(job_slot),
        spec(job_spec),
        ranks(job_spec.ranks),
        table(job_spec.ranks, job_spec.credit),
        deadlines(table.capacity()) {}

  JobSlot slot;
  JobSpec spec;
  std::vector<RankState> ranks;
  OperationTable table;
  DeadlineHeap deadlines;
  std::uint32_t tiles = 0;  // in flight
  // Set when a rank goes: with it every later operation of this epoch fails at once.
  Verdict broken;
  Slot oldest_failed = kNone;
  Slot newest_failed = kNone;
  std::uint32_t failed = 0;
  JobTotals totals;
  std::unique_ptr<TraceRing> trace;  // null: off
};

}  // namespace tally::protocol
