// How lost versions are repaired, or end their job (job_versions.h).
#include <fmt/format.h>

#include <utility>

#include "control/coordinator/state/jobs/job_versions.h"
#include "control/coordinator/state/plans.h"

namespace tally::control {
namespace {

// Whether both versions come from one plan of an operator, or both from the coordinator's own.
bool have_same_plan(const JobRecord& one, const JobRecord& other) {
  const auto has_own = [](const JobRecord& job) {
    return job.made_by == nullptr || job.made_by->source != PlanSource::kFile;
  };
  return one.made_by == other.made_by || (has_own(one) && has_own(other));
}

}  // namespace

// The version that ranks use together with this one, which they leave; 0: they do not use this one
// any more.
std::uint32_t JobVersions::used_with(std::uint32_t leaving) const {
  const JobState* state = jobs_.find(leaving);
  const bool is_used = state != nullptr && state->stage == JobStage::kLeaving && state->change &&
                       state->change->stage() == Change::Stage::kMoving;
  return is_used ? state->next : 0;
}

// The change to the next version is about to be called off, for a reason that passes. A repair
// makes its own attempts.
void JobVersions::want_again(JobState& state) {
  if (state.next == 0 || state.repair) return;
  const JobRecord& next = *jobs_.record(state.next);
  const bool is_same = have_same_plan(*jobs_.record(next.follows), next);
  state.wanted = is_same ? Wanted::kOwnPlan : Wanted::kPlanInForce;
}

// Returns false when the version does not run, or cannot be repaired. A change that the repair
// calls off is wanted afterwards too, unless it only was to find another layout.
bool JobVersions::begin_repair(std::uint32_t epoch, const std::string& why) {
  JobState* state = jobs_.find(epoch);
  if (state == nullptr || state->stage != JobStage::kRunning) return false;
  if (!jobs_.is_repairable(*state)) return false;
  const JobRecord& job = *jobs_.record(epoch);
  const bool has_other_plan = state->next != 0 && !have_same_plan(job, *jobs_.record(state->next));
  if (has_other_plan) want_again(*state);
  end_other_versions(epoch, refused(why));
  state->stage = JobStage::kRepairing;
  state->repair.emplace().why = why;
  state->trouble.clear();
  repair_events_.push_back({.job = job.name, .epoch = epoch, .why = why});
  return true;
}

void JobVersions::finish_repair(std::uint32_t epoch) {
  JobState& state = *jobs_.find(epoch);
  repair_events_.push_back({.job = jobs_.record(epoch)->name,
                            .epoch = epoch,
                            .why = state.repair->why,
                            .has_ended = true,
                            .repaired_by = state.next,
                            .since = state.repair->since});
  use_next(state);
  state.repair.reset();
}

void JobVersions::give_up(std::uint32_t epoch, const Error& why,
                          std::optional<std::uint32_t> culprit) {
  const JobState* state = jobs_.find(epoch);
  if (state == nullptr || state->stage != JobStage::kRepairing) return;
  repair_events_.push_back({.job = jobs_.record(epoch)->name,
                            .epoch = epoch,
                            .why = why.message,
                            .has_ended = true,
                            .since = state->repair->since});
  const std::vector<Ticket> ranks = state->by_rank;
  end(epoch, why);
  for (const Ticket ticket : ranks) {
    if (ticket != 0) notify_ended(ticket, epoch, why.message, culprit);
  }
}

bool JobVersions::ends_for(const std::string& job, std::uint32_t rank, std::uint32_t ranks) {
  const JobRecord* record = jobs_.current(job);
  if (record == nullptr || ranks != record->ranks) return false;
  const JobState& state = *jobs_.find(record->epoch);
  if (state.by_rank[rank] != 0 || state.absent.contains(rank)) return false;
  const Error again{Status::kPeerLost, fmt::format("rank {} opens the job anew", rank)};
  const bool had_place = state.stage == JobStage::kRepairing || state.resume_until != 0;
  if (had_place && leave_out(record->epoch, {rank}, again.message)) return true;
  if (state.stage == JobStage::kRepairing) {
    give_up(record->epoch, again, rank);
  } else if (state.resume_until != 0 && !state.released.empty()) {
    end(record->epoch, again);
  } else {
    return false;
  }
  return true;
}

void JobVersions::not_resumed(std::uint32_t epoch) {
  JobState& state = *jobs_.find(epoch);
  const auto absent = state.missing_ranks();
  const bool has_lost = !state.missing.empty() || state.repair || !state.released.empty();
  if (has_lost && leave_out(epoch, {absent.begin(), absent.end()},
                            fmt::format("{} did not come back in time", name_ranks(absent)))) {
    return;
  }
  if (!state.missing.empty()) {
    state.departed = state.missing.front();
    state.missing.clear();
  }
  if (state.stage == JobStage::kRunning && !state.released.empty()) {
    return end(epoch, refused("a rank has left it"));
  }
  if (!state.repair) return;
  if (const auto gone = state.departed) {
    return give_up(epoch, {Status::kPeerLost, fmt::format("rank {} {}", gone->rank, gone->how)},
                   gone->rank);
  }
  const auto missing = jobs_.ranks_not_listening(state, true);
  const bool is_one = missing.size() == 1;
  give_up(epoch,
          {is_one ? Status::kPeerLost : Status::kUnavailable,
           fmt::format("{}; not repaired: {} did not come to the new coordinator in time, or "
                       "cannot be repaired",
                       state.repair->why, name_ranks(missing))},
          is_one ? std::optional(missing.front()) : std::nullopt);
}

void JobVersions::notify_ended(Ticket ticket, std::uint32_t epoch, const std::string& why,
                               std::optional<std::uint32_t> culprit) {
  notifications_.push_back({.ticket = ticket,
                            .word = Change::Word::kEnded,
                            .epoch = epoch,
                            .why = why,
                            .culprit = culprit});
}

// Another rank has ended the job, or it is over for another reason.
void JobVersions::notify_departed(Ticket ticket, std::uint32_t epoch, const std::string& why,
                                  const Departure* departed) {
  if (departed == nullptr) {
    return notify_ended(ticket, epoch, fmt::format("{}; the job is over", why), {});
  }
  notify_ended(ticket, epoch, fmt::format("rank {} {}", departed->rank, departed->how),
               departed->rank);
}

// The rank has lost the version of that epoch, and waits for a repair or for the end. A version
// that its job uses no more has another one after it, of which the rank is about to read.
void JobVersions::lose(Ticket ticket, std::uint32_t epoch, const RankReport& report) {
  const std::string& why = report.why;
  const auto current = jobs_.version_of(ticket);
  JobState* state = current ? jobs_.find(*current) : nullptr;
  if (state == nullptr || state->stage == JobStage::kOver) {
    return notify_departed(ticket, epoch, why, jobs_.departed_from(ticket));
  }
  const auto rank = state->rank_of(ticket);
  if (!rank) return;
  if (state->next != 0 && epoch == state->next) return cannot_change(ticket, epoch, why);
  if (epoch != *current && used_with(epoch) != *current) return;
  leave_out_blamed(*current, report);
  if (state->stage == JobStage::kRepairing) return lose_again(*current, *rank, why);
  if (begin_repair(*current, fmt::format("rank {}: {}", *rank, why))) {
    state->repair->reported.insert(*rank);
    if (report.lost_rank) state->repair->blamed.insert(*report.lost_rank);
  } else if (state->departed) {
    notify_departed(ticket, epoch, why, jobs_.departed_from(ticket));
  } else {
    const auto old = jobs_.ranks_not_listening(*state, true);
    notify_ended(
        ticket, epoch,
        fmt::format("{}; not repaired: {} not there, or of an older release", why, name_ranks(old)),
        {});
  }
}

// All ranks may report one loss. A rank that reports it twice, or after it has reported on the
// attempt, has lost something of the attempt.
void JobVersions::lose_again(std::uint32_t epoch, std::uint32_t rank, const std::string& why) {
  JobState& state = *jobs_.find(epoch);
  const bool is_first = state.repair->reported.insert(rank).second;
  const bool has_answered = state.change && state.change->has_reported(rank);
  if (state.next == 0 || (is_first && !has_answered)) return;
  fail_next(state.next, fmt::format("rank {}: {}", rank, why));
}

}  // namespace tally::control
