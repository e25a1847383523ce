// When the repairs of lost versions make their attempts, and when they give up. The first attempt
// is made at once; where a new coordinator has taken the job over, when all ranks have resumed it.
// After a failed one, the next is made when members have changed, or after a pause
// that grows. When the members cannot serve the job's plan, it waits until they change. All
// attempts together have FaultTimeouts::repair(). The coordinator's thread calls this, with the
// time; no call fails.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/timeouts/fault_timeouts.h"
#include "control/coordinator/state/jobs/job_table.h"

namespace tally::control {

inline constexpr Nanos kRepairPause = 200 * kMillisecond;  // after the first attempt that fails

class JobRepairs {
 public:
  // Borrows the table. `timeout` is FaultTimeouts::repair().
  explicit JobRepairs(JobTable& jobs, Nanos timeout = FaultTimeouts{}.repair())
      : jobs_(jobs), timeout_(timeout) {}

  // Members have joined or left, or their NICs have changed.
  void members_changed();
  // The members cannot serve the plan of the job of that epoch.
  void wait_for_members(std::uint32_t epoch, const std::string& why);

  struct Due {
    std::vector<std::uint32_t> attempts;  // epochs of lost versions that get another attempt now
    std::vector<std::uint32_t> expired;   // and of those whose time is over
    // Epochs of versions of an earlier coordinator that not all ranks have resumed in time.
    std::vector<std::uint32_t> not_resumed;
  };
  Due due(Nanos now);
  Nanos next_deadline() const;  // kForever when there is none

 private:
  // Whether all ranks of a version of an earlier coordinator have come to this one. kExpired: some
  // have not, and their time is over.
  enum class Return : std::uint8_t { kComplete, kUnderWay, kExpired };
  Return return_of(JobState& state, Nanos now);

  JobTable& jobs_;
  Nanos timeout_;
};

// Why the job of that epoch is not repaired yet, and the first rank that its repair waits for.
// Precondition: it is being repaired.
struct Delay {
  std::string why;
  std::optional<std::uint32_t> culprit;
};
Delay delay_of_repair(const JobTable& jobs, std::uint32_t epoch);

}  // namespace tally::control
