// A job at one shard: its members, its operations, its places in trees, and what becomes of it when
// a member goes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/protocol/aggregator.h"
#include "dataplane/protocol/deadline_heap.h"
#include "dataplane/protocol/job_metrics.h"
#include "dataplane/protocol/operation_table.h"
#include "dataplane/protocol/slots.h"

namespace tally::protocol {

inline constexpr std::uint16_t kNoVertex = UINT16_MAX;

// A rank, or a branch: these are numbered behind the ranks.
struct MemberState {
  Member member = kNoMember;
  std::uint32_t outstanding = 0;
  std::uint32_t credit = 0;  // the most that may be
  bool gone = false;         // for good
  bool has_last = false;     // last_tag and last_round: its latest announcement
  std::uint32_t last_tag = 0;
  std::uint32_t last_round = 0;
  RankCounters counters;
};

// What is worked out once of a Vertex.
struct Place {
  TileClass cls = 0;             // of its tiles
  std::uint32_t slot_class = 0;  // of the slots between it and its branches
  // By rank: the child that it is below of, or that it is; kNoRank: it is elsewhere in the tree.
  std::vector<std::uint16_t> child_of;

  // Whether any rank of the set is below this child.
  bool has(const RankSet& set, std::uint16_t child) const {
    return set.all || (set.rank < child_of.size() && child_of[set.rank] == child);
  }
};

struct Aggregator::Job {
  Job(JobSlot job_slot, JobSpec job_spec, bool one_class);

  // kNoVertex: this shard has no place in the tree.
  std::uint16_t vertex_in(std::uint32_t tree) const {
    return tree < vertex_of.size() ? vertex_of[tree] : kNoVertex;
  }
  const Vertex& vertex(const OperationRecord& operation) const {
    return spec.vertices[operation.vertex];
  }
  const Place& place(const OperationRecord& operation) const { return places[operation.vertex]; }
  bool is_branch(std::uint16_t child) const { return child >= spec.ranks; }
  std::uint16_t child_of(const Branch& branch) const {
    return static_cast<std::uint16_t>(spec.ranks + branch.number);
  }
  BranchSlots& slots_of(std::uint16_t child) { return branches[child - spec.ranks]; }

  JobSlot slot;
  JobSpec spec;
  std::vector<Place> places;  // by vertex
  // By tree: which of the vertices is its; kNoVertex, and so are trees past the end.
  std::vector<std::uint16_t> vertex_of;
  std::vector<MemberState> members;  // ranks, then branches
  std::vector<BranchSlots> branches;
  std::vector<ParentSlots> parents;
  OperationTable table;
  DeadlineHeap deadlines;
  std::uint32_t tiles = 0;  // in flight
  // Set when a member goes: with it every later operation of this epoch fails at once.
  Verdict broken;
  Slot oldest_failed = kNone;
  Slot newest_failed = kNone;
  std::uint32_t failed = 0;
  JobTotals totals;
  std::unique_ptr<TraceRing> trace;  // null: off
};

}  // namespace tally::protocol
