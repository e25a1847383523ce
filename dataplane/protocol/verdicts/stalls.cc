#include "dataplane/protocol/verdicts/stalls.h"

#include <algorithm>
#include <utility>

namespace tally::protocol {
namespace {

using State = OperationRecord::State;

// Fewer operations than this do not show what is usual.
constexpr std::size_t kEnoughRecords = 8;

struct Thresholds {
  Nanos announcements = kShortestStall;
  Nanos bytes = kShortestStall;
};

Nanos median(std::vector<Nanos> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

Thresholds thresholds_of(const std::vector<TraceRecord>& latest) {
  std::vector<Nanos> waiting, working;
  for (const TraceRecord& record : latest) {
    if (record.verdict.status != Status::kOk) continue;
    waiting.push_back(record.ready - record.notice);
    working.push_back(record.completed - record.ready);
  }
  Thresholds thresholds;
  if (waiting.size() < kEnoughRecords) return thresholds;
  thresholds.announcements = std::max(kShortestStall, kTimesUsual * median(std::move(waiting)));
  thresholds.bytes = std::max(kShortestStall, median(std::move(working)));
  return thresholds;
}

// The latest time when something happened in the operation.
Nanos progress_of(const OperationRecord& operation) {
  const StageTimes& times = operation.times;
  return std::max({times.last_notice, times.started, times.pulled, times.summed});
}

// The same of all operations of the job.
Nanos progress_of(const Job& job, const std::vector<TraceRecord>& latest) {
  Nanos progress = latest.empty() ? 0 : latest.back().completed;
  for (PoolIndex i = 0; i < job.table.used(); ++i) {
    if (job.table[i].is_open()) progress = std::max(progress, progress_of(job.table[i]));
  }
  return progress;
}

std::uint32_t number_in(const std::vector<std::uint32_t>& numbers, std::size_t index) {
  return index < numbers.size() ? numbers[index] : 0;
}

// Collects the stalls of one operation.
class Stalls {
 public:
  Stalls(const Job& job, PoolIndex index)
      : job_(job), operation_(job.table[index]), index_(index) {}

  void missing() {
    add_missing_ranks(Cause::kNotJoined);
    add_missing_ranks(Cause::kNotAnnounced);
    for (const ChildNode& child_node : job_.vertex(operation_).child_nodes) {
      const std::uint16_t child = job_.child_of(child_node);
      if (job_.table.marked(index_, child)) continue;
      add_child_node(child, operation_.first_notice).ranks = child_node.ranks;
    }
  }

  void awaits(const std::vector<SessionId>& sessions) {
    std::vector<std::uint16_t> ranks;
    for (std::uint16_t child = 0; child < job_.members.size(); ++child) {
      const SessionId member = job_.members[child].member;
      const bool is_awaited = member != kNoSession &&
                              std::find(sessions.begin(), sessions.end(), member) != sessions.end();
      if (!is_awaited) continue;
      if (job_.is_child_node(child)) {
        add_child_node(child, progress_of(operation_));
      } else {
        ranks.push_back(child);
      }
    }
    if (!ranks.empty()) add(Cause::kBytes, progress_of(operation_)).ranks = std::move(ranks);
  }

  // Results are at these child nodes, and not everywhere below them.
  void placing() {
    for (std::size_t i = 0; i < job_.child_nodes.size(); ++i) {
      const auto& down = job_.child_nodes[i].down;
      const bool has_results = std::any_of(down.begin(), down.end(), [&](const auto& buffer) {
        return buffer.passed && buffer.operation == index_;
      });
      if (!has_results) continue;
      add_child_node(static_cast<std::uint16_t>(job_.spec.ranks + i), progress_of(operation_));
    }
  }

  void parent() {
    Stall& stall = add(Cause::kParentNode, progress_of(operation_));
    stall.node = number_in(job_.spec.parent_node_numbers, job_.vertex(operation_).parent);
  }

  std::vector<Stall> take() { return std::move(stalls_); }

 private:
  // The reference is valid until the next stall is added.
  Stall& add(Cause cause, Nanos since) {
    Stall stall;
    stall.cause = cause;
    stall.tag = operation_.key.tag;
    stall.round = operation_.key.round;
    stall.first_notice = operation_.first_notice;
    stall.since = since;
    stalls_.push_back(std::move(stall));
    return stalls_.back();
  }

  void add_missing_ranks(Cause cause) {
    std::vector<std::uint16_t> ranks;
    for (const std::uint16_t rank : job_.vertex(operation_).ranks) {
      const bool has_joined = job_.members[rank].member != kNoSession;
      if (job_.table.marked(index_, rank)) continue;
      if (has_joined == (cause == Cause::kNotAnnounced)) ranks.push_back(rank);
    }
    if (ranks.empty()) return;
    const MemberState& first = job_.members[ranks.front()];
    Stall& stall = add(cause, operation_.first_notice);
    stall.ranks = std::move(ranks);
    stall.has_last = first.has_last;
    stall.last_tag = first.last_tag;
    stall.last_round = first.last_round;
    stall.last_notice = first.last_notice;
  }

  Stall& add_child_node(std::uint16_t child, Nanos since) {
    Stall& stall = add(Cause::kChildNode, since);
    stall.node = number_in(job_.spec.child_node_numbers, child - std::size_t{job_.spec.ranks});
    return stall;
  }

  const Job& job_;
  const OperationRecord& operation_;
  PoolIndex index_;
  std::vector<Stall> stalls_;
};

// Whether the parent has to act next.
bool waits_for_parent(const Job& job, const OperationRecord& operation) {
  return operation.state == State::kActive && operation.tiles_in_flight == 0 &&
         job.leads_up(operation.vertex);
}

std::vector<Stall> stalls_of(const Job& job, PoolIndex index, Nanos now,
                             const Thresholds& thresholds, Nanos job_progress,
                             const Awaited& awaited) {
  const OperationRecord& operation = job.table[index];
  Stalls stalls(job, index);
  if (operation.state == State::kGathering) {
    if (now - operation.first_notice > thresholds.announcements) stalls.missing();
    return stalls.take();
  }
  const bool is_under_way =
      operation.state == State::kActive || operation.state == State::kDraining;
  // Tiles count in the record of the sums.
  const Nanos progress = progress_of(job.table[job.sums_of(index)]);
  if (!is_under_way || now - progress <= thresholds.bytes) return {};
  if (waits_for_parent(job, operation)) {
    // A parent serves operations one after the other. So one of them may wait while others go on.
    if (now - job_progress > thresholds.bytes) stalls.parent();
  } else if (operation.tiles_in_flight > 0) {
    stalls.awaits(awaited(index));
  } else if (operation.placing > 0) {
    stalls.placing();
  }
  return stalls.take();
}

}  // namespace

Health health_of(const Job& job, Nanos now, const Awaited& awaited) {
  const std::vector<TraceRecord> latest = job.trace.latest();
  const Thresholds thresholds = thresholds_of(latest);
  const Nanos job_progress = progress_of(job, latest);
  Health health;
  for (PoolIndex i = 0; i < job.table.used(); ++i) {
    const bool is_older =
        health.stalls.empty() || job.table[i].first_notice < health.stalls.front().first_notice;
    if (job.table[i].state == State::kFree || !is_older) continue;
    auto stalls = stalls_of(job, i, now, thresholds, job_progress, awaited);
    if (!stalls.empty()) health.stalls = std::move(stalls);
  }
  for (const TraceRecord& record : latest) {
    if (record.verdict.status == Status::kCancelled) continue;
    if (record.verdict.status == Status::kOk) {
      health.last_success = std::max(health.last_success, record.notice);
    } else if (!health.failure || health.failure->completed < health.last_success) {
      health.failure = record;
    }
  }
  const bool is_past = health.failure && health.failure->completed < health.last_success;
  if (is_past) health.failure.reset();
  return health;
}

}  // namespace tally::protocol
