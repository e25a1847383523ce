// For tests: how sessions of this process enter their job, in place of
// client/session/job_entry.cc and resume_job.cc.
#pragma once

#include <cstdint>

#include "client/session/job_entry.h"

namespace tally::traces {

class JobEntrance {
 public:
  virtual ~JobEntrance() = default;
  // Opens the connections of the rank to the version. Those of the first version come with a
  // channel to the coordinator.
  virtual client::JobEntry enter(std::uint16_t rank, std::uint32_t epoch) = 0;
};

// Borrowed by all sessions of this process. One thread.
void set_entrance(JobEntrance* entrance);

}  // namespace tally::traces
