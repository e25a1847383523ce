// Finds the slow jobs, and bounds what they have in flight.
#include <algorithm>
#include <optional>

#include "dataplane/protocol/scheduling/tile_scheduler.h"

namespace tally::protocol {
namespace {

// The allowance of a job when it becomes slow. The allowance grows from there.
constexpr std::uint64_t kFirstAllowance = 64 << 10;
// After this many rounds in a row, each within half of the time that the others grant, a job is no
// longer slow. That holds even when it has never needed more than its allowance.
constexpr std::uint32_t kQuickRounds = 64;
// When no event comes for longer, the shard slept or did not get the processor.
constexpr Nanos kLongestGap = 10 * kMillisecond;

// The two shortest turnovers, of different jobs.
struct Quickest {
  JobId job = UINT32_MAX;
  std::optional<Nanos> first;
  std::optional<Nanos> second;

  void add(JobId other, Nanos turnover) {
    if (!first || turnover < *first) {
      second = first;
      first = turnover;
      job = other;
    } else if (!second || turnover < *second) {
      second = turnover;
    }
  }
  // Returns the shortest turnover of all jobs but this one.
  std::optional<Nanos> besides(JobId other) const { return other == job ? second : first; }
};

Nanos timeout_for(Nanos quickest) {
  return std::max(TileScheduler::kShortestTimeout, TileScheduler::kTimesOthers * quickest);
}

}  // namespace

void TileScheduler::Pool::add(const Pool& other) {
  pulls.bytes += other.pulls.bytes;
  tiles += other.tiles;
}

void TileScheduler::Pool::subtract(const Pool& other) {
  pulls.bytes -= other.pulls.bytes;
  tiles -= other.tiles;
}

Nanos TileScheduler::reach(Nanos now) {
  if (now > reached_) {
    clock_ += std::min(now - reached_, kLongestGap);
    reached_ = now;
  }
  return clock_;
}

void TileScheduler::on_probation(JobId job) {
  for (Class& cls : classes_) move(cls, job, true);
}

void TileScheduler::review(Nanos now) {
  reach(now);
  if (now - reviewed_ < kReviewEvery) return;
  reviewed_ = now;
  blocked_ = false;
  for (Class& cls : classes_) review(cls);
}

// The jobs that wait decide how long a job may take. When the network is slow for all of them, no
// job is slow. When no quick job has anything to do, slow jobs may have the whole window.
void TileScheduler::review(Class& cls) {
  const bool full = !cls.quick.has_room(cls.limits) && cls.owners.count > 0;
  if (!full && cls.slow_jobs == 0) return;
  Quickest waiting;
  Quickest busy;
  for (JobId job = 0; job < cls.queues.size(); ++job) {
    const Queue& queue = cls.queues[job];
    if (queue.slow) continue;
    const Nanos turnover = queue.turnover.at(clock_);
    if (!queue.ready.empty()) waiting.add(job, turnover);
    if (!queue.ready.empty() || queue.turnover.in_flight() > 0) busy.add(job, turnover);
  }
  cls.timeout = busy.first ? timeout_for(*busy.first) : kForever;
  if (!full) return;
  for (JobId job = 0; job < cls.queues.size(); ++job) {
    const Queue& queue = cls.queues[job];
    const auto others = waiting.besides(job);
    if (queue.slow || queue.turnover.in_flight() == 0 || !others) continue;
    blocked_ = true;
    if (queue.turnover.at(clock_) <= timeout_for(*others)) continue;
    Pool together = cls.slow;
    together.add(queue.pool);
    const std::uint64_t window = kSlowPool * cls.limits.window_bytes;
    const bool fits =
        together.tiles <= kSlowPool * cls.limits.tiles && together.pulls.bytes <= window;
    if (fits) move(cls, job, true);
  }
}

void TileScheduler::give(TileClass number, JobId job, std::uint64_t bytes, Nanos now) {
  Class& cls = classes_[number];
  Queue& queue = cls.queues[job];
  const bool over = queue.turnover.give(bytes, reach(now));
  if (over && queue.slow) adapt(cls, job);
}

// The allowance is what the job turns over in the time that the others grant.
void TileScheduler::adapt(Class& cls, JobId job) {
  Queue& queue = cls.queues[job];
  const Nanos round = queue.turnover.last();
  if (round > cls.timeout) {
    const double part = static_cast<double>(cls.timeout) / static_cast<double>(round);
    const auto less = static_cast<std::uint64_t>(static_cast<double>(queue.allowance) * part);
    queue.allowance = std::max(less, kFirstAllowance);
  }
  if (round > cls.timeout / 2) {
    queue.quick_rounds = 0;
    return;
  }
  ++queue.quick_rounds;
  if (!queue.ready.empty()) queue.allowance *= 2;
  const bool quick = queue.allowance >= cls.limits.window_bytes;
  if (quick || queue.quick_rounds >= kQuickRounds) move(cls, job, false);
}

void TileScheduler::move(Class& cls, JobId job, bool to_slow) {
  Queue& queue = cls.queues[job];
  const bool waits = !queue.ready.empty();
  std::uint32_t& tiles_of_owner = cls.jobs_of[jobs_[job].owner].tiles;
  pool_of(cls, queue).subtract(queue.pool);
  if (to_slow) {
    tiles_of_owner -= queue.pool.tiles;
    ++cls.slow_jobs;
    queue.allowance = kFirstAllowance;
    queue.quick_rounds = 0;
  } else {
    tiles_of_owner += queue.pool.tiles;
    --cls.slow_jobs;
    catch_up(jobs_[job]);
  }
  if (waits) count_waiting(cls, job, !to_slow);
  queue.slow = to_slow;
  pool_of(cls, queue).add(queue.pool);
}

}  // namespace tally::protocol
