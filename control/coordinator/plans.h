// The plans that somebody has set: for a job by its name, and for all others.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "control/coordinator/layout.h"

namespace tally::control {

inline constexpr std::size_t kMaxPlans = 64;  // at a time: each may be as large as a file

// Or what the closed form made of the members that there were.
struct SetPlan {
  std::string job;  // empty: for all that have none of their own
  MachinePlan machines;
  bool closed_form = false;

  std::string title() const;  // for messages of a job's: "its plan of epoch 7"
};

class Plans {
 public:
  // In place of what was set for that job. An error where there are too many.
  Outcome set(const std::string& job, MachinePlan plan);
  // Nothing happens where there is none.
  void drop(const std::string& job) { plans_.erase(job); }
  // The job's own, else that for all; nullptr: none, so stars by the closed form are in force. Jobs
  // keep what they are made by.
  std::shared_ptr<const SetPlan> find(const std::string& job) const;
  const std::map<std::string, std::shared_ptr<const SetPlan>>& all() const { return plans_; }

 private:
  std::map<std::string, std::shared_ptr<const SetPlan>> plans_;  // by job
};

}  // namespace tally::control
