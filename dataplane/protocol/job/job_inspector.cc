#include "dataplane/protocol/job/job_inspector.h"

#include <algorithm>
#include <utility>

namespace tally::protocol {

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
    for (const std::uint16_t rank : job.vertex(operation).ranks) {
      if (!job.table.marked(i, rank)) entry.missing.push_back(rank);
    }
    for (const ChildNode& child_node : job.vertex(operation).child_nodes) {
      if (job.table.marked(i, job.child_of(child_node))) continue;
      entry.missing_below.insert(entry.missing_below.end(), child_node.ranks.begin(),
                                 child_node.ranks.end());
    }
    waiting.push_back(std::move(entry));
  }
  return waiting;
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
