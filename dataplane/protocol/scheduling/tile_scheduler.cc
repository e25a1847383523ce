#include "dataplane/protocol/scheduling/tile_scheduler.h"

#include <algorithm>

namespace tally::protocol {
namespace {

// Virtual time advances by bytes * kScale / weight.
constexpr std::uint64_t kScale = 1024;

// How many tiles a slow job may have in flight, even when it turns over little: the shard pulls one
// while it pushes the other.
constexpr std::uint32_t kLeastSlowTiles = 2;

// Virtual time wraps around after weeks. Two times that are compared differ by less than half its
// range.
bool before(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::int64_t>(a - b) < 0;
}

void advance(std::uint64_t& served, std::uint64_t virtual_time) {
  if (before(served, virtual_time)) served = virtual_time;
}

}  // namespace

TileScheduler::TileScheduler(const std::vector<Limits>& classes) {
  for (const Limits& limits : classes) {
    classes_.emplace_back();
    classes_.back().limits = limits;
  }
}

// Returns the entry of the owner. A job without an owner gets an entry of its own.
std::uint32_t TileScheduler::owner_of(const JobShare& share) {
  std::size_t index = owners_.size();
  for (std::size_t i = owners_.size(); i-- > 0;) {
    if (owners_[i].jobs == 0) {
      index = std::min(index, i);
    } else if (share.owner != kNoOwner && owners_[i].id == share.owner) {
      return static_cast<std::uint32_t>(i);
    }
  }
  if (index == owners_.size()) {
    for (Class& cls : classes_) cls.jobs_of.resize(std::max(cls.jobs_of.size(), index + 1));
    owners_.emplace_back();
  }
  const std::uint32_t weight = share.owner == kNoOwner ? share.weight : 1;
  owners_[index] = Owner{.id = share.owner, .weight = weight, .served = virtual_time_};
  return static_cast<std::uint32_t>(index);
}

// Each vector grows by itself, because an earlier call may have run out of memory after it had
// grown only some of them.
void TileScheduler::add_job(JobId job, const JobShare& share) {
  for (Class& cls : classes_) {
    if (job >= cls.queues.size()) cls.queues.resize(job + 1);
    cls.ready.reserve(job + 1);
  }
  if (job >= jobs_.size()) jobs_.resize(job + 1);
  const std::uint32_t owner = owner_of(share);
  ++owners_[owner].jobs;
  jobs_[job] = Job{.weight = share.weight, .owner = owner};
  for (Class& cls : classes_) cls.queues[job] = Queue{};
}

void TileScheduler::reserve(JobId job, TileClass cls, std::uint32_t operations,
                            std::uint32_t tiles) {
  Queue& queue = classes_[cls].queues[job];
  queue.ready.reserve(queue.ready.capacity() + operations);
  queue.most = std::min(queue.most, tiles);
}

void TileScheduler::remove_job(JobId job) {
  for (TileClass cls = 0; cls < classes_.size(); ++cls) {
    Queue& queue = classes_[cls].queues[job];
    while (!queue.ready.empty()) remove(job, cls, queue.ready.front().operation);
    if (queue.slow) --classes_[cls].slow_jobs;
    queue = Queue{};
  }
  --owners_[jobs_[job].owner].jobs;
  jobs_[job] = Job{};
}

// A job that was idle or slow does not get back the time that it did not use.
void TileScheduler::catch_up(Job& job) {
  Owner& owner = owners_[job.owner];
  advance(job.served, owner.virtual_time);
  advance(owner.served, virtual_time_);
}

// Slow jobs do not count here, because they have a pool of their own.
void TileScheduler::count_waiting(Class& cls, JobId id, bool waits) {
  const Job& job = jobs_[id];
  Waiting& jobs = cls.jobs_of[job.owner];
  if (waits) {
    if (jobs.count++ == 0) ++cls.owners.count, cls.owners.weight += owners_[job.owner].weight;
    jobs.weight += job.weight;
  } else {
    jobs.weight -= job.weight;
    if (--jobs.count == 0) --cls.owners.count, cls.owners.weight -= owners_[job.owner].weight;
  }
}

void TileScheduler::add(JobId id, TileClass number, PoolIndex operation, std::uint8_t priority,
                        std::uint64_t age) {
  Job& job = jobs_[id];
  Owner& owner = owners_[job.owner];
  Class& cls = classes_[number];
  Queue& queue = cls.queues[id];
  if (queue.ready.empty()) {
    if (job.ready_queues++ == 0) advance(job.served, owner.virtual_time);
    if (owner.ready_queues++ == 0) advance(owner.served, virtual_time_);
    ++ready_queues_;
    queue.place = static_cast<std::uint32_t>(cls.ready.size());
    cls.ready.push_back(id);
    if (!queue.slow) count_waiting(cls, id, true);
  }
  queue.ready.push_back(Ready{priority, age, operation});
  std::push_heap(queue.ready.begin(), queue.ready.end());
}

void TileScheduler::remove(JobId id, TileClass number, PoolIndex operation) {
  Class& cls = classes_[number];
  Queue& queue = cls.queues[id];
  auto& ready = queue.ready;
  if (ready.empty()) return;
  if (ready.front().operation == operation) {  // the usual case: its last tile has started
    std::pop_heap(ready.begin(), ready.end());
    ready.pop_back();
  } else {
    const auto found = std::find_if(ready.begin(), ready.end(), [&](const Ready& entry) {
      return entry.operation == operation;
    });
    if (found == ready.end()) return;
    ready.erase(found);
    std::make_heap(ready.begin(), ready.end());
  }
  if (!ready.empty()) return;
  --jobs_[id].ready_queues;
  --owners_[jobs_[id].owner].ready_queues;
  --ready_queues_;
  cls.queues[cls.ready.back()].place = queue.place;
  cls.ready[queue.place] = cls.ready.back();
  cls.ready.pop_back();
  if (!queue.slow) count_waiting(cls, id, false);
}

// True when the job has fewer tiles in flight than its share. Its share is less than Limits::tiles
// only while other jobs wait.
bool TileScheduler::within_share(const Class& cls, JobId id) const {
  const Job& job = jobs_[id];
  const Waiting& jobs = cls.jobs_of[job.owner];
  std::uint64_t share = cls.limits.tiles;
  if (cls.owners.count > 1) {
    share = std::max<std::uint64_t>(share * owners_[job.owner].weight / cls.owners.weight, 1);
    if (jobs.tiles >= share) return false;
  }
  if (jobs.count > 1) share = std::max<std::uint64_t>(share * job.weight / jobs.weight, 1);
  return cls.queues[id].pool.tiles < share;
}

bool TileScheduler::may_start(const Class& cls, JobId id) const {
  const Queue& queue = cls.queues[id];
  const auto& [pulls, tiles] = queue.pool;
  const std::uint64_t window = cls.limits.window_bytes;
  if (tiles >= queue.most || pulls.fills(window) || queue.kept_back.fills(window)) return false;
  if (!queue.slow) return cls.quick.has_room(cls.limits) && within_share(cls, id);
  if (tiles == 0) return cls.slow.has_room(cls.limits, kSlowPool);
  return cls.slow.has_room(cls.limits, kSlowPool / 2) &&
         (tiles < kLeastSlowTiles ||
          !(pulls.fills(queue.allowance) || queue.pushes.fills(queue.allowance)));
}

// Slow jobs take turns by their last start, because `served` does not count their tiles.
bool TileScheduler::goes_before(JobId job, const Queue& queue, JobId best_job,
                                const Queue& best) const {
  if (job == best_job)
    return best.ready.front() < queue.ready.front();  // the same job, other class
  const Job& one = jobs_[job];
  const Job& other = jobs_[best_job];
  if (queue.slow && best.slow) {
    return one.owner == other.owner
               ? queue.last_start < best.last_start
               : owners_[one.owner].last_slow_start < owners_[other.owner].last_slow_start;
  }
  return one.owner == other.owner ? before(one.served, other.served)
                                  : before(owners_[one.owner].served, owners_[other.owner].served);
}

std::optional<TileScheduler::Choice> TileScheduler::next() const {
  if (ready_queues_ == 0) return std::nullopt;
  const Queue* best = nullptr;
  JobId best_job = 0;
  for (const Class& cls : classes_) {
    if (cls.slow_jobs == 0 && !cls.quick.has_room(cls.limits)) continue;
    for (const JobId job : cls.ready) {
      if (!may_start(cls, job)) continue;
      const Queue& queue = cls.queues[job];
      if (best != nullptr && !goes_before(job, queue, best_job, *best)) continue;
      best = &queue;
      best_job = job;
    }
  }
  if (best == nullptr) return std::nullopt;
  return Choice{best_job, best->ready.front().operation};
}

std::uint64_t TileScheduler::allowance(JobId job, TileClass cls) const {
  const Queue& queue = classes_[cls].queues[job];
  return queue.slow ? queue.allowance : UINT64_MAX;
}

bool TileScheduler::may_push(JobId job, TileClass cls) const {
  return !classes_[cls].queues[job].pushes.fills(classes_[cls].limits.window_bytes);
}

void TileScheduler::started(JobId id, TileClass number) {
  Class& cls = classes_[number];
  Queue& queue = cls.queues[id];
  ++queue.pool.tiles;
  ++pool_of(cls, queue).tiles;
  Job& job = jobs_[id];
  Owner& owner = owners_[job.owner];
  if (queue.slow) {  // a slow job takes nothing from others
    queue.last_start = owner.last_slow_start = ++slow_starts_;
    return;
  }
  advance(virtual_time_, owner.served);
  advance(owner.virtual_time, job.served);
  ++cls.jobs_of[job.owner].tiles;
}

void TileScheduler::pulling(JobId id, TileClass number, std::uint64_t bytes) {
  Class& cls = classes_[number];
  Queue& queue = cls.queues[id];
  queue.pool.pulls.bytes += bytes;
  pool_of(cls, queue).pulls.bytes += bytes;
  queue.turnover.take(bytes, clock_);
  if (queue.slow) return;
  Job& job = jobs_[id];
  Owner& owner = owners_[job.owner];
  owner.served += bytes * kScale / owner.weight;
  job.served += bytes * kScale / job.weight;
}

void TileScheduler::pulled(JobId job, TileClass cls, std::uint64_t bytes, Nanos now) {
  Queue& queue = classes_[cls].queues[job];
  queue.pool.pulls.bytes -= bytes;
  pool_of(classes_[cls], queue).pulls.bytes -= bytes;
  give(cls, job, bytes, now);
}

void TileScheduler::pushing(JobId job, TileClass cls, std::uint64_t bytes, Nanos now) {
  Queue& queue = classes_[cls].queues[job];
  queue.pushes.bytes += bytes;
  queue.turnover.take(bytes, reach(now));
}

void TileScheduler::pushed(JobId job, TileClass cls, std::uint64_t bytes, Nanos now) {
  classes_[cls].queues[job].pushes.bytes -= bytes;
  give(cls, job, bytes, now);
}

void TileScheduler::keep_back(JobId job, TileClass cls, std::uint64_t bytes) {
  classes_[cls].queues[job].kept_back.bytes += bytes;
}

void TileScheduler::let_go(JobId job, TileClass cls, std::uint64_t bytes) {
  classes_[cls].queues[job].kept_back.bytes -= bytes;
}

void TileScheduler::finished(JobId job, TileClass cls) {
  const Pool tile{{}, 1};
  Queue& queue = classes_[cls].queues[job];
  queue.pool.subtract(tile);
  pool_of(classes_[cls], queue).subtract(tile);
  if (!queue.slow) --classes_[cls].jobs_of[jobs_[job].owner].tiles;
}

}  // namespace tally::protocol
