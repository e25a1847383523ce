#include "dataplane/protocol/job/job_metrics.h"

#include <algorithm>
#include <utility>

#include "dataplane/protocol/job/job.h"

namespace tally::protocol {
namespace {

// Returns the bytes of an extent that lie in this part.
std::uint64_t bytes_within(const OperationRecord& operation, const Extent& extent) {
  const std::uint64_t first = std::max(operation.first, extent.first);
  const std::uint64_t end = std::min(operation.end, extent.first + extent.count);
  return first < end ? (end - first) * element_bytes(operation.shape.type) : 0;
}

void add_to_totals(JobTotals& totals, const OperationRecord& operation, Nanos now) {
  const StageTimes& times = operation.times;
  const Nanos ready = times.last_notice;
  ++totals.parts;
  totals.waiting += ready - operation.first_notice - times.notice_delays / operation.children;
  totals.queueing += now - ready - times.pulling - times.summing - times.pushing;
  totals.pulling += times.pulling;
  totals.summing += times.summing;
  totals.pushing += times.pushing;
}

TraceRecord record_of(const OperationRecord& operation, std::uint16_t ranks, Nanos now) {
  const StageTimes& times = operation.times;
  return TraceRecord{.key = operation.key,
                     .part = operation.part,
                     .first_rank = operation.first_rank,
                     .last_rank = times.last_rank < ranks ? times.last_rank : wire::kNoRank,
                     .kind = operation.shape.kind,
                     .type = operation.shape.type,
                     .verdict = operation.verdict,
                     .count = operation.end - operation.first,
                     .notice = operation.first_notice,
                     .last_notice = times.last_notice,
                     .ready = operation.was_ready ? times.last_notice : 0,
                     .started = times.started,
                     .pulled = times.pulled,
                     .summed = times.summed,
                     .completed = now,
                     .pulling = times.pulling,
                     .summing = times.summing,
                     .pushing = times.pushing};
}

}  // namespace

JobTotals& JobTotals::operator+=(const JobTotals& other) {
  parts += other.parts;
  bytes += other.bytes;
  waiting += other.waiting;
  queueing += other.queueing;
  pulling += other.pulling;
  summing += other.summing;
  pushing += other.pushing;
  return *this;
}

RankCounters& RankCounters::operator+=(const RankCounters& other) {
  notices += other.notices;
  completions += other.completions;
  failures += other.failures;
  bytes_in += other.bytes_in;
  bytes_out += other.bytes_out;
  damaged += other.damaged;
  times_last += other.times_last;
  lateness += other.lateness;
  return *this;
}

std::vector<TraceRecord> TraceRing::newest(std::uint64_t count) const {
  std::vector<TraceRecord> newest;
  newest.reserve(count);
  const std::size_t size = records_.size();
  for (std::size_t i = next_ + size - count; i < next_ + size; ++i) {
    newest.push_back(records_[i % size]);
  }
  return newest;
}

std::vector<TraceRecord> TraceRing::latest() const {
  return newest(std::min<std::uint64_t>(added_, kLatest));
}

void TraceRing::trace(std::size_t records) {
  const std::vector<TraceRecord> kept = latest();
  std::vector<TraceRecord> ring(std::max(records, kLatest));
  std::copy(kept.begin(), kept.end(), ring.begin());
  records_ = std::move(ring);
  next_ = kept.size() % records_.size();
  traced_ = records;
  added_ = taken_ = kept.size();
}

TraceRing::Taken TraceRing::take() {
  Taken taken;
  if (traced_ == 0) return taken;
  const std::uint64_t kept = std::min<std::uint64_t>(added_ - taken_, traced_);
  taken.dropped = added_ - taken_ - kept;
  taken.records = newest(kept);
  taken_ = added_;
  return taken;
}

void account(Job& job, const OperationRecord& operation, Nanos now) {
  const bool ok = operation.verdict.status == Status::kOk;
  const bool moved = ok && operation.first != operation.end;
  const TreePosition& position = job.position(operation);
  for (PoolIndex i = operation.announcements; i != kNone; i = job.table.announcement(i).next) {
    const Announcement& announcement = job.table.announcement(i);
    if (announcement.member == kNoSession) continue;  // it is gone and got no completion
    const std::uint16_t rank = announcement.rank;
    RankCounters& counters = job.members[rank].counters;
    ++(ok ? counters.completions : counters.failures);
    if (!moved || job.is_child_node(rank)) continue;
    const std::uint64_t bytes = bytes_within(operation, contribution(operation.shape, rank));
    if (position.results) {
      counters.bytes_out += bytes_within(operation, result(operation.shape, rank));
    }
    if (!position.sums) continue;
    counters.bytes_in += bytes;
    job.totals.bytes += bytes;
  }
  if (moved && position.sums) {
    add_to_totals(job.totals, operation, now);
    if (operation.part == 0 && operation.children > 1) {
      RankCounters& last = job.members[operation.times.last_rank].counters;
      ++last.times_last;
      last.lateness += operation.times.last_notice - operation.times.previous_notice;
    }
  }
  job.trace.add(record_of(operation, job.spec.ranks, now));
}

void account_refused(Job& job, const OperationKey& key, std::uint16_t part, Nanos now) {
  if (std::exchange(job.has_refused, true)) return;
  TraceRecord record;
  record.key = key;
  record.part = part;
  record.verdict = job.broken;
  record.notice = record.last_notice = record.completed = now;
  job.trace.add(record);
}

}  // namespace tally::protocol
