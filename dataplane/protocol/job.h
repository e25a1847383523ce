// A job at one shard: its ranks, its operations, and what becomes of it when a rank goes.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
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

inline constexpr std::uint16_t kNoVertex = UINT16_MAX;

struct Aggregator::Job {
  Job(JobSlot job_slot, JobSpec job_spec)
      : slot(job_slot),
        spec(std::move(job_spec)),
        ranks(spec.ranks),
        table(spec.ranks, spec.credit),
        deadlines(table.capacity()) {
    for (std::uint16_t i = 0; i < spec.vertices.size(); ++i) {
      const std::uint32_t tree = spec.vertices[i].tree;
      if (tree >= vertex_of.size()) vertex_of.resize(tree + 1, kNoVertex);
      vertex_of[tree] = i;
    }
  }

  // kNoVertex: this shard has no place in the tree.
  std::uint16_t vertex_in(std::uint32_t tree) const {
    return tree < vertex_of.size() ? vertex_of[tree] : kNoVertex;
  }

  JobSlot slot;
  JobSpec spec;
  std::vector<RankState> ranks;
  // By tree: which of the vertices is its; kNoVertex, and so are trees past the end.
  std::vector<std::uint16_t> vertex_of;
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
