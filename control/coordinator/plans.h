// The plans that somebody has set: for a job by its name, and for all others. They are kept in the
// coordinator's store.
#pragma once

#include <memory>
#include <set>
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
  // Borrows the store.
  explicit Plans(Store& store) : store_(store) {}

  // An error where there would be too many with these jobs' own.
  Outcome may_have(const std::set<std::string>& jobs) const;
  // In place of what was set for that job. An error where there are too many.
  Outcome set(const std::string& job, MachinePlan plan);
  // Nothing happens where there is none.
  void drop(const std::string& job) { store_.erase_plan(job); }
  // The job's own, else that for all; nullptr: none, so stars by the closed form are in force. Jobs
  // keep what they are made by.
  std::shared_ptr<const SetPlan> find(const std::string& job) const;
  const PlansByJob& all() const { return store_.plans(); }

 private:
  Store& store_;
};

}  // namespace tally::control
