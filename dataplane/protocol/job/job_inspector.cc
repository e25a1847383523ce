#include "dataplane/protocol/job/job_inspector.h"

#include <algorithm>
#include <utility>

namespace tally::protocol {
namespace {

// Adds the ranks that have not announced the operation, and all ranks below such child nodes.
void add_missing(const Job& job, PoolIndex index, std::vector<std::uint16_t>& missing,
                 std::vector<std::uint16_t>& missing_below) {
  const Vertex& vertex = job.vertex(job.table[index]);
  for (const std::uint16_t rank : vertex.ranks) {
    if (!job.table.marked(index, rank)) missing.push_back(rank);
  }
  for (const ChildNode& child_node : vertex.child_nodes) {
    if (job.table.marked(index, job.child_of(child_node))) continue;
    missing_below.insert(missing_below.end(), child_node.ranks.begin(), child_node.ranks.end());
  }
}

Outstanding outstanding_of(const Job& job, PoolIndex index) {
  const OperationRecord& operation = job.table[index];
  const std::uint16_t last = operation.times.last_rank;
  Outstanding one{.key = operation.key,
                  .part = operation.part,
                  .state = operation.state,
                  .kind = operation.shape.kind,
                  .type = operation.shape.type,
                  .count = operation.end - operation.first,
                  .first_rank = operation.first_rank,
                  .last_rank = last < job.spec.ranks ? last : wire::kNoRank,
                  .notice = operation.first_notice,
                  .last_notice = operation.times.last_notice,
                  .tiles_in_flight = operation.tiles_in_flight,
                  .missing = {},
                  .missing_below = {}};
  if (operation.state == OperationRecord::State::kGathering) {
    add_missing(job, index, one.missing, one.missing_below);
  }
  return one;
}

}  // namespace

bool JobInspector::is_slow(JobId job) const {
  const std::vector<TreePosition>& positions = jobs_[job].positions;
  return std::any_of(positions.begin(), positions.end(), [&](const TreePosition& position) {
    return scheduler_.is_slow(job, position.cls);
  });
}

bool JobInspector::buffers_free(JobId id) const {
  const Job& job = jobs_[id];
  const auto used = [](const auto& entry) { return entry.used; };
  for (const ParentBuffers& parent : job.parents) {
    const bool free = std::none_of(parent.up.begin(), parent.up.end(), used) &&
                      std::none_of(parent.down.begin(), parent.down.end(), used);
    if (!parent.gone && !free) return false;
  }
  for (std::size_t i = 0; i < job.child_nodes.size(); ++i) {
    const ChildBuffers& buffers = job.child_nodes[i];
    std::size_t free = 0;
    for (std::size_t cls = 0; cls < buffers.free_up.size(); ++cls) {
      free += buffers.free_up[cls].size() + buffers.free_down[cls].size();
      if (!buffers.waiting[cls].empty()) return false;
    }
    const bool all = free == buffers.up.size() + buffers.down.size();
    if (!job.members[job.spec.ranks + i].gone && !all) return false;
  }
  return true;
}

std::vector<Waiting> JobInspector::waiting(JobId id) const {
  const Job& job = jobs_[id];
  std::vector<Waiting> waiting;
  for (PoolIndex i = 0; i < job.table.used(); ++i) {
    const OperationRecord& operation = job.table[i];
    // Part 0 stands for the operation, because every rank announces it, in one tree.
    if (operation.state != OperationRecord::State::kGathering || operation.part != 0) continue;
    Waiting entry{operation.key.tag, operation.key.round, {}, {}, operation.first_notice};
    const bool complete = operation.announced == operation.children;
    add_missing(job, complete ? operation.other : i, entry.missing, entry.missing_below);
    waiting.push_back(std::move(entry));
  }
  return waiting;
}

std::vector<Outstanding> JobInspector::outstanding(JobId id, std::size_t most) const {
  using State = OperationRecord::State;
  const Job& job = jobs_[id];
  std::vector<PoolIndex> oldest;
  for (PoolIndex i = 0; i < job.table.used(); ++i) {
    const State state = job.table[i].state;
    if (state != State::kFree && state != State::kFailed) oldest.push_back(i);
  }
  std::sort(oldest.begin(), oldest.end(), [&](PoolIndex a, PoolIndex b) {
    return job.table[a].first_notice < job.table[b].first_notice;
  });
  if (oldest.size() > most) oldest.resize(most);
  std::vector<Outstanding> list;
  list.reserve(oldest.size());
  for (const PoolIndex index : oldest) list.push_back(outstanding_of(job, index));
  return list;
}

std::vector<RankState> JobInspector::rank_states(JobId id) const {
  const Job& job = jobs_[id];
  std::vector<RankState> states;
  states.reserve(job.spec.ranks);
  for (std::uint16_t rank = 0; rank < job.spec.ranks; ++rank) {
    const MemberState& state = job.members[rank];
    states.push_back({.has_joined = state.member != kNoSession,
                      .is_gone = state.gone,
                      .outstanding = state.outstanding,
                      .has_last = state.has_last,
                      .last_tag = state.last_tag,
                      .last_round = state.last_round,
                      .last_notice = state.last_notice});
  }
  return states;
}

std::vector<RankCounters> JobInspector::rank_counters(JobId job) const {
  std::vector<RankCounters> all;
  const std::uint16_t ranks = jobs_[job].spec.ranks;
  all.reserve(ranks);
  for (std::uint16_t rank = 0; rank < ranks; ++rank) {
    all.push_back(jobs_[job].members[rank].counters);
  }
  return all;
}

void JobInspector::set_trace(JobId job, std::size_t records) const {
  jobs_[job].trace.trace(records);
}

TraceRing::Taken JobInspector::take_trace(JobId job) const {
  return jobs_[job].trace.take();
}

std::vector<TraceRecord> JobInspector::latest(JobId job) const {
  return jobs_[job].trace.latest();
}

}  // namespace tally::protocol
