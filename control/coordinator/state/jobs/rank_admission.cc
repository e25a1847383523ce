#include "control/coordinator/state/jobs/rank_admission.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/access/job_lock.h"

namespace tally::control {
namespace {

// Limit of all versions, as a multiple of max_jobs. It bounds the memory of jobs that are over and
// that nodes still have.
constexpr std::size_t kMostPerJob = 4;

std::string describe(const RankLossPolicy& policy) {
  if (policy.quorum == 0) return fmt::format("\"{}\"", policy_name(policy));
  return fmt::format("\"{}\" with a quorum of {}", policy_name(policy), policy.quorum);
}

}  // namespace

Outcome RankAdmission::admits(const Opening& opening, const JobTable& jobs) const {
  if (auto may = unlocks(opening, jobs); !may) return may;
  const JobRecord* job = jobs.current(opening.job);
  if (job == nullptr) return may_form(opening, jobs);
  return may_enter(opening, *job, *jobs.find(job->epoch));
}

Outcome RankAdmission::unlocks(const Opening& opening, const JobTable& jobs) const {
  if (const JobRecord* job = jobs.current(opening.job)) {
    return control::may_enter(opening.caller, opening.job, job->lock);
  }
  const auto lock = lock_of(opening);
  return lock ? Outcome(Unit{}) : lock.error();
}

Result<JobLock> RankAdmission::lock_of(const Opening& opening) const {
  const ConfiguredJob* configuration = configured(opening.job);
  return make_lock(opening.caller, opening.job,
                   configuration != nullptr ? &configuration->token : nullptr);
}

Outcome RankAdmission::may_enter(const Opening& opening, const JobRecord& job,
                                 const JobState& state) const {
  // A rank that opens again after a stale epoch finds that the job has ended, and forms it anew.
  const bool is_ending = state.departed || !state.missing.empty();
  const Status status = is_ending ? Status::kStaleEpoch : Status::kRefused;
  if (opening.ranks != job.ranks) {
    return Error{status, fmt::format("job \"{}\" has {} ranks, rank {} says {}", opening.job,
                                     job.ranks, opening.rank, opening.ranks)};
  }
  if (opening.rank_loss != job.rank_loss) {
    return Error{status, fmt::format("job \"{}\" has on_rank_loss {}, rank {} says {}: give all "
                                     "ranks the same",
                                     opening.job, describe(job.rank_loss), opening.rank,
                                     describe(opening.rank_loss))};
  }
  if (state.by_rank[opening.rank] != 0 || state.returning.contains(opening.rank)) {
    return Error{status, fmt::format("job \"{}\": rank {} is taken; is another run of this job "
                                     "still alive?",
                                     opening.job, opening.rank)};
  }
  return Unit{};
}

Result<std::uint32_t> RankAdmission::may_resume(const Opening& opening,
                                                const std::vector<std::uint32_t>& epochs,
                                                const JobTable& jobs) const {
  if (auto may = unlocks(opening, jobs); !may) return may.error();
  const JobRecord* job = jobs.current(opening.job);
  const JobStage stage = job != nullptr ? jobs.find(job->epoch)->stage : JobStage::kOver;
  const bool is_in_use = stage == JobStage::kRunning || stage == JobStage::kRepairing;
  const bool is_known = is_in_use && job->ranks == opening.ranks &&
                        std::find(epochs.begin(), epochs.end(), job->epoch) != epochs.end();
  if (!is_known) {
    return Error{
        Status::kStaleEpoch,
        fmt::format("job \"{}\": the version that rank {} has is over", opening.job, opening.rank)};
  }
  const JobState& state = *jobs.find(job->epoch);
  if (state.absent.contains(opening.rank)) {
    return Error{
        Status::kStaleEpoch,
        fmt::format("job \"{}\" goes on without rank {}, which was lost: open the job again "
                    "to return to it",
                    opening.job, opening.rank)};
  }
  if (state.by_rank[opening.rank] != 0) {
    return Error{
        Status::kUnavailable,
        fmt::format("job \"{}\": rank {} has an earlier connection here that has not ended: ask "
                    "again, or end the other process of this rank",
                    opening.job, opening.rank)};
  }
  return job->epoch;
}

Outcome RankAdmission::may_form(const Opening& opening, const JobTable& jobs) const {
  const ConfiguredJob* configuration = configured(opening.job);
  if (configuration == nullptr && !rules_.open_jobs) {
    return refused(
        fmt::format("job \"{}\" is not configured at the coordinator, and open_jobs is false: add "
                    "it to the configuration there",
                    opening.job));
  }
  if (configuration != nullptr && configuration->ranks != 0 &&
      configuration->ranks != opening.ranks) {
    return refused(fmt::format("job \"{}\" is configured with {} ranks, rank {} says {}",
                               opening.job, configuration->ranks, opening.rank, opening.ranks));
  }
  if (opening.ranks > rules_.max_ranks) {
    return refused(fmt::format("job \"{}\": {} ranks, max_ranks is {}", opening.job, opening.ranks,
                               rules_.max_ranks));
  }
  const std::size_t alive = jobs.alive(), all = jobs.states().size();
  if (alive >= rules_.max_jobs) {
    return refused(fmt::format("job \"{}\": the coordinator has {} jobs and max_jobs is {}",
                               opening.job, alive, rules_.max_jobs));
  }
  if (all >= kMostPerJob * rules_.max_jobs) {
    return refused(
        fmt::format("job \"{}\": {} jobs are over and their nodes have yet to let go of "
                    "them: look at the nodes' logs",
                    opening.job, all - alive));
  }
  return Unit{};
}

JobRecord RankAdmission::new_job(const Opening& opening, std::uint32_t epoch) const {
  const ConfiguredJob* configuration = configured(opening.job);
  JobRecord job;
  job.name = opening.job;
  if (auto lock = lock_of(opening)) job.lock = std::move(*lock);
  job.lock.key = net::auth::generate_key();
  job.epoch = epoch;
  job.ranks = opening.ranks;
  job.rank_loss = opening.rank_loss;
  job.weight = configuration != nullptr ? configuration->weight : 1;
  if (configuration == nullptr) job.owner = opening.owner;
  return job;
}

const ConfiguredJob* RankAdmission::configured(const std::string& name) const {
  const auto found = std::find_if(rules_.jobs.begin(), rules_.jobs.end(),
                                  [&](const ConfiguredJob& job) { return job.name == name; });
  return found == rules_.jobs.end() ? nullptr : &*found;
}

}  // namespace tally::control
