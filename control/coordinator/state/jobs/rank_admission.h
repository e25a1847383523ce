// Which ranks the coordinator admits: a rank enters the job that its request names, or forms it.
// The decision follows the configured jobs, the limits, the job's token, and which places are free.
// Pure: the caller gives the state. A refusal is an error with the remedy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/access/caller.h"
#include "control/coordinator/records/configured_job.h"
#include "control/coordinator/state/jobs/job_table.h"

namespace tally::control {

// A rank's request to open its job.
struct Opening {
  std::string job;
  Caller caller{};
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::string host{};  // the rank's host, when the rank gives it
  std::string owner{};
  RankLossPolicy rank_loss{};
};

struct AdmissionRules {
  bool open_jobs = true;  // jobs may form that the configuration does not name
  std::uint32_t max_jobs = 64;
  std::uint32_t max_ranks = 1024;
  std::vector<ConfiguredJob> jobs{};
};

class RankAdmission {
 public:
  explicit RankAdmission(AdmissionRules rules) : rules_(std::move(rules)) {}

  // Whether what the rank shows is enough to enter the job of that name, or to form it when there
  // is none.
  Outcome unlocks(const Opening& opening, const JobTable& jobs) const;
  // Whether the rank may enter the job, or form it: unlocks(), and there is room for it.
  Outcome admits(const Opening& opening, const JobTable& jobs) const;
  // Returns the version that the rank may resume: the one of `epochs` that runs or is being
  // repaired. kStaleEpoch: there is none. kUnavailable: another connection has the rank's place. It
  // may be an earlier connection of this rank, which has not ended here yet.
  Result<std::uint32_t> may_resume(const Opening& opening, const std::vector<std::uint32_t>& epochs,
                                   const JobTable& jobs) const;
  // The record of a job that the rank forms. Precondition: admits().
  JobRecord new_job(const Opening& opening, std::uint32_t epoch) const;

 private:
  const ConfiguredJob* configured(const std::string& name) const;
  Result<JobLock> lock_of(const Opening& opening) const;
  Outcome may_enter(const Opening& opening, const JobRecord& job, const JobState& state) const;
  Outcome may_form(const Opening& opening, const JobTable& jobs) const;

  AdmissionRules rules_;
};

}  // namespace tally::control
