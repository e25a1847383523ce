// The post-mortem reports of jobs that have ended here, for some minutes. Control thread only.
#pragma once

#include <deque>
#include <vector>

#include "base/clock.h"
#include "control/access/job_lock.h"
#include "control/node/reports/post_mortem.h"

namespace tally::control {

class EndedJobs {
 public:
  // Bounds of what is kept. A report has some 20 KB for each shard.
  static constexpr std::size_t kMost = 8;
  static constexpr Nanos kKeep = 600 * kSecond;

  struct Entry {
    PostMortem report;
    JobLock lock;  // which callers may see it
  };

  // Keeps the report, unless the job has ended no operation. With more than kMost reports, drops
  // the oldest one of a job without a failure, or else the oldest one.
  void add(PostMortem report, JobLock lock);
  // Returns those of the last kKeep, the oldest first. They are valid until the next call.
  std::vector<const Entry*> at(Nanos now);

 private:
  std::deque<Entry> entries_;
};

}  // namespace tally::control
