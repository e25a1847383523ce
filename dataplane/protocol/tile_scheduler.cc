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

void TileScheduler::add_job(JobSlot job, std::uint32_t weight, std::uint32_t operations,
                            std::uint64_t window_bytes) {
  if (job >= jobs_.size()) jobs_.resize(job + 1);
  jobs_[job] = Job{};
  jobs_[job].weight = weight;
  jobs_[job].window_bytes = window_bytes;
  jobs_[job].ready.reserve(operations);
}

void TileScheduler::remove_job(JobSlot job) {
  while (!jobs_[job].ready.empty()) remove(job, jobs_[job].ready.front().operation);
  jobs_[job] = Job{};
}

void TileScheduler::add(JobSlot slot, Slot operation, std::uint8_t priority, std::uint64_t age) {
  Job& job = jobs_[slot];
  if (job.ready.empty()) {
    // A job that was idle does not get the time back that it did not use.
    if (before(job.served, virtual_time_)) job.served = virtual_time_;
    ++ready_jobs_;
    ready_weight_ += job.weight;
  }
  job.ready.push_back(Ready{priority, age, operation});
  std::push_heap(job.ready.begin(), job.ready.end());
}

void TileScheduler::remove(JobSlot slot, Slot operation) {
  Job& job = jobs_[slot];
  if (job.ready.empty()) return;
  if (job.ready.front().operation == operation) {  // the usual case: its last tile has started
    std::pop_heap(job.ready.begin(), job.ready.end());
    job.ready.pop_back();
  } else {
    const auto found = std::find_if(job.ready.begin(), job.ready.end(), [&](const Ready& ready) {
      return ready.operation == operation;
    });
    if (found == job.ready.end()) return;
    job.ready.erase(found);
    std::make_heap(job.ready.begin(), job.ready.end());
  }
  if (job.ready.empty()) {
    --ready_jobs_;
    ready_weight_ -= job.weight;
  }
}

bool TileScheduler::has_room_for(const Job& job) const {
  if (job.flight.fills(job.window_bytes)) return false;
  if (ready_jobs_ <= 1) return true;
  const std::uint64_t share = std::uint64_t{limits_.tiles} * job.weight / ready_weight_;
  return job.tiles < std::max<std::uint64_t>(share, 1);
}

std::optional<TileScheduler::Choice> TileScheduler::next() const {
  if (ready_jobs_ == 0 || tiles_ >= limits_.tiles) return std::nullopt;
  if (flight_.fills(limits_.window_bytes)) return std::nullopt;
  const Job* best = nullptr;
  for (const Job& job : jobs_) {
    if (job.ready.empty() || !has_room_for(job)) continue;
    if (best == nullptr || before(job.served, best->served)) best = &job;
  }
  if (best == nullptr) return std::nullopt;
  return Choice{static_cast<JobSlot>(best - jobs_.data()), best->ready.front().operation};
}

void TileScheduler::started(JobSlot slot, std::uint64_t bytes) {
  Job& job = jobs_[slot];
  if (before(virtual_time_, job.served)) virtual_time_ = job.served;
  job.served += bytes * kScale / job.weight;
  ++job.tiles;
  ++tiles_;
  job.flight.pulls += bytes;
  flight_.pulls += bytes;
}

void TileScheduler::pulled(JobSlot job, std::uint64_t bytes) {
  jobs_[job].flight.pulls -= bytes;
  flight_.pulls -= bytes;
}

void TileScheduler::pushing(JobSlot job, std::uint64_t bytes) {
  jobs_[job].flight.pushes += bytes;
  flight_.pushes += bytes;
}

void TileScheduler::pushed(JobSlot job, std::uint64_t bytes) {
  jobs_[job].flight.pushes -= bytes;
  flight_.pushes -= bytes;
}

void TileScheduler::finished(JobSlot job) {
  --jobs_[job].tiles;
  --tiles_;
}

}  // namespace tally::protocol
