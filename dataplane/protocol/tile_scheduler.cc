#include "dataplane/protocol/tile_scheduler.h"

#include <algorithm>

namespace tally::protocol {
namespace {

// Virtual time advances by bytes * kScale / weight.
constexpr std::uint64_t kScale = 1024;

// Virtual time wraps around after weeks; what is compared is never half a circle apart.
bool before(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::int64_t>(a - b) < 0;
}

}  // namespace

TileScheduler::TileScheduler(const std::vector<Limits>& classes) {
  for (const Limits& limits : classes) classes_.push_back(Class{.limits = limits});
}

void TileScheduler::add_job(JobSlot job, std::uint32_t weight) {
  if (job >= jobs_.size()) {
    jobs_.resize(job + 1);
    for (Class& cls : classes_) cls.lanes.resize(job + 1);
  }
  jobs_[job] = Job{.weight = weight};
  for (Class& cls : classes_) cls.lanes[job] = Lane{};
}

void TileScheduler::reserve(JobSlot job, TileClass cls, std::uint32_t operations,
                            std::uint32_t tiles) {
  Lane& lane = classes_[cls].lanes[job];
  lane.ready.reserve(lane.ready.capacity() + operations);
  lane.most = std::min(lane.most, tiles);
}

void TileScheduler::remove_job(JobSlot job) {
  for (TileClass cls = 0; cls < classes_.size(); ++cls) {
    const Lane& lane = classes_[cls].lanes[job];
    while (!lane.ready.empty()) remove(job, cls, lane.ready.front().operation);
    classes_[cls].lanes[job] = Lane{};
  }
  jobs_[job] = Job{};
}

void TileScheduler::add(JobSlot slot, TileClass cls, Slot operation, std::uint8_t priority,
                        std::uint64_t age) {
  Job& job = jobs_[slot];
  Lane& lane = classes_[cls].lanes[slot];
  if (lane.ready.empty()) {
    // A job that was idle does not get the time back that it did not use.
    if (job.ready_lanes++ == 0 && before(job.served, virtual_time_)) job.served = virtual_time_;
    ++ready_lanes_;
    ++classes_[cls].ready_jobs;
    classes_[cls].ready_weight += job.weight;
  }
  lane.ready.push_back(Ready{priority, age, operation});
  std::push_heap(lane.ready.begin(), lane.ready.end());
}

void TileScheduler::remove(JobSlot slot, TileClass cls, Slot operation) {
  auto& ready = classes_[cls].lanes[slot].ready;
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
  if (ready.empty()) {
    --jobs_[slot].ready_lanes;
    --ready_lanes_;
    --classes_[cls].ready_jobs;
    classes_[cls].ready_weight -= jobs_[slot].weight;
  }
}

bool TileScheduler::Class::has_slot_for(const Lane& lane, std::uint32_t weight) const {
  if (lane.tiles >= lane.most) return false;
  if (ready_jobs <= 1) return true;
  const std::uint64_t share = std::uint64_t{limits.tiles} * weight / ready_weight;
  return lane.tiles < std::max<std::uint64_t>(share, 1);
}

std::optional<TileScheduler::Choice> TileScheduler::next() const {
  if (ready_lanes_ == 0) return std::nullopt;
  const Ready* best = nullptr;
  JobSlot best_job = 0;
  for (const Class& cls : classes_) {
    if (cls.ready_jobs == 0 || !cls.has_room()) continue;
    for (JobSlot job = 0; job < cls.lanes.size(); ++job) {
      const Lane& lane = cls.lanes[job];
      if (lane.ready.empty() || !cls.has_slot_for(lane, jobs_[job].weight)) continue;
      const Ready& top = lane.ready.front();
      const bool better =
          best == nullptr ||
          (job == best_job ? *best < top : before(jobs_[job].served, jobs_[best_job].served));
      if (!better) continue;
      best = &top;
      best_job = job;
    }
  }
  if (best == nullptr) return std::nullopt;
  return Choice{best_job, best->operation};
}

void TileScheduler::started(JobSlot slot, TileClass cls, std::uint64_t bytes) {
  Job& job = jobs_[slot];
  if (before(virtual_time_, job.served)) virtual_time_ = job.served;
  job.served += bytes * kScale / job.weight;
  ++classes_[cls].lanes[slot].tiles;
  ++classes_[cls].tiles;
  classes_[cls].bytes += bytes;
}

void TileScheduler::finished(JobSlot slot, TileClass cls, std::uint64_t bytes) {
  --classes_[cls].lanes[slot].tiles;
  --classes_[cls].tiles;
  classes_[cls].bytes -= bytes;
}

}  // namespace tally::protocol
