// Which running jobs need another plan, and when each may begin to change. A job needs one after a
// drain, after an operator's request, for ranks that return, and when nodes or NICs have changed
// and then stayed the same for kCalm. It may begin when all its ranks can be notified, and when the
// version before it has ended. The coordinator's thread calls this, with the time; no call fails.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "control/coordinator/state/jobs/job_table.h"
#include "control/coordinator/state/plans.h"

namespace tally::control {

inline constexpr Nanos kCalm = 2 * kSecond;

class PlanChanges {
 public:
  // Borrows both.
  PlanChanges(JobTable& jobs, const Plans& plans) : jobs_(jobs), plans_(plans) {}

  // The members or their NICs have changed. Jobs use them when `calm` has passed without another
  // change. Does nothing when there are no jobs.
  void members_changed(Nanos now, Nanos calm = kCalm);
  // Whether the coordinator makes a plan for the present members. Until it is made, jobs do not
  // change for new members: they would change twice.
  void await_plan(bool awaits) { awaits_plan_ = awaits; }
  // Jobs use that plan now, unless members have changed again.
  void plan_made(Nanos now);
  // Jobs need a new layout of their own plan, because a node is drained.
  void want_new_layouts();
  // Jobs need the plan in force: the job of this name; empty: all.
  void want_plan_in_force(const std::string& job);

  // The epochs of the jobs that may begin to change now.
  std::vector<std::uint32_t> ready(Nanos now);
  Nanos next_deadline() const;  // kForever when there is none

 private:
  void renew_in_force();
  void retry_for_returning(Nanos now);

  JobTable& jobs_;
  const Plans& plans_;
  Nanos calm_at_ = kForever;  // when running jobs use the present members and NICs
  bool awaits_plan_ = false;
  Nanos again_at_ = kForever;  // when jobs with ranks that return try again to change
};

}  // namespace tally::control
