// How the jobs stand, as operators see it. A job is shown once: its next and its leaving versions
// are its change. Functions of the table alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "control/coordinator/state/jobs/job_table.h"
#include "control/coordinator/state/plans.h"

namespace tally::control {

struct JobProgress {
  std::string name;
  std::uint32_t epoch = 0;
  std::uint64_t plan_epoch = 0;
  PlanSource source = PlanSource::kClosedForm;
  std::uint32_t ranks = 0;  // ranks of the job; come is how many of them have asked
  std::uint32_t come = 0;
  RankNumbers left_out{};          // ranks that the job has lost, and without which it goes on
  std::vector<std::string> nodes;  // nodes with its trees; empty: not yet placed
  // "gathering", "placing", "running", "changing", "repairing", or "ending": it is over, but not
  // yet at all its nodes.
  std::string_view stage;
  std::string waits_for;  // the ranks or nodes, or what its change or repair waits for
  std::string trouble;    // why its last change failed, or why it is repaired
};

// A job that has trees at a drained node.
struct DrainingJob {
  std::string job;
  std::string what;      // what it waits for
  bool gave_up = false;  // until an operator asks again
};

// All jobs, by epoch.
std::vector<JobProgress> progress_of(const JobTable& jobs);
// The jobs that have trees at the node.
std::vector<DrainingJob> jobs_at(const JobTable& jobs, NodeId node);

}  // namespace tally::control
