#include "control/node/reports/ended_jobs.h"

#include <algorithm>
#include <utility>

namespace tally::control {
namespace {

bool has_operations(const PostMortem& report) {
  return std::any_of(report.shards.begin(), report.shards.end(),
                     [](const ShardPostMortem& shard) { return !shard.latest.empty(); });
}

bool has_failed(const EndedJobs::Entry& entry) {
  const auto& shards = entry.report.shards;
  return std::any_of(shards.begin(), shards.end(),
                     [](const ShardPostMortem& shard) { return shard.health.failure.has_value(); });
}

}  // namespace

void EndedJobs::add(PostMortem report, JobLock lock) {
  if (!has_operations(report)) return;
  lock.key.reset();  // with the job its key has ended
  entries_.push_back({std::move(report), std::move(lock)});
  if (entries_.size() <= kMost) return;
  const auto dropped = std::find_if_not(entries_.begin(), entries_.end(), has_failed);
  entries_.erase(dropped == entries_.end() ? entries_.begin() : dropped);
}

std::vector<const EndedJobs::Entry*> EndedJobs::at(Nanos now) {
  std::erase_if(entries_, [now](const Entry& entry) { return now - entry.report.taken > kKeep; });
  std::vector<const Entry*> entries;
  for (const Entry& entry : entries_) entries.push_back(&entry);
  return entries;
}

}  // namespace tally::control
