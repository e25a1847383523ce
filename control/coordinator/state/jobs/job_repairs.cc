#include "control/coordinator/state/jobs/job_repairs.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/coordinator/state/change.h"

namespace tally::control {
namespace {

constexpr std::uint32_t kMostDoublings = 4;  // of the pause

Nanos pause_after(std::uint32_t attempts) {
  return kRepairPause << std::min(attempts - 1, kMostDoublings);
}

}  // namespace

void JobRepairs::members_changed() {
  for (auto& [epoch, state] : jobs_.states()) {
    if (state.repair) state.repair->attempt_at = 0;
  }
}

void JobRepairs::wait_for_members(std::uint32_t epoch, const std::string& why) {
  JobState* state = jobs_.find(epoch);
  if (state == nullptr || !state->repair) return;
  state->trouble = why;
  state->repair->attempt_at = kForever;
}

JobRepairs::Return JobRepairs::return_of(JobState& state, Nanos now) {
  if (state.resume_until == 0) return Return::kComplete;
  const bool all = jobs_.ranks_not_listening(state, true).empty();
  if (!all && now < state.resume_until) return Return::kUnderWay;
  state.resume_until = 0;
  return all ? Return::kComplete : Return::kExpired;
}

JobRepairs::Due JobRepairs::due(Nanos now) {
  Due due;
  for (auto& [epoch, state] : jobs_.states()) {
    const Return ranks = return_of(state, now);
    if (ranks == Return::kExpired) due.not_resumed.push_back(epoch);
    if (!state.repair) continue;
    Repair& repair = *state.repair;
    if (repair.since == 0) repair.since = now;
    if (repair.since + timeout_ <= now) {
      due.expired.push_back(epoch);
      continue;
    }
    if (ranks != Return::kComplete) continue;
    if (state.next != 0) continue;
    if (!repair.attempt_at) repair.attempt_at = now + pause_after(repair.attempts);
    if (*repair.attempt_at <= now) due.attempts.push_back(epoch);
  }
  return due;
}

Nanos JobRepairs::next_deadline() const {
  Nanos next = kForever;
  for (const auto& [epoch, state] : jobs_.states()) {
    if (state.resume_until != 0) next = std::min(next, state.resume_until);
    if (!state.repair) continue;
    next = std::min(next, state.repair->since + timeout_);
    if (state.resume_until != 0) continue;
    if (state.next == 0) next = std::min(next, state.repair->attempt_at.value_or(0));
  }
  return next;
}

Delay delay_of_repair(const JobTable& jobs, std::uint32_t epoch) {
  const JobState& state = *jobs.find(epoch);
  const auto coming = jobs.ranks_not_listening(state, true);
  if (state.resume_until != 0 && !coming.empty()) {
    return {fmt::format("waits for {} to come to this coordinator", name_ranks(coming)),
            coming.front()};
  }
  if (state.change) {
    const auto ranks = state.change->waits_for();
    const bool asking = state.change->stage() == Change::Stage::kAsking;
    return {fmt::format("waits for {} to {}", name_ranks(ranks),
                        asking ? "open sessions of its next version" : "know of its next version"),
            ranks.empty() ? std::nullopt : std::optional(ranks.front())};
  }
  if (state.next != 0) {
    const auto& unconfirmed = jobs.find(state.next)->unconfirmed;
    return {fmt::format("waits for {} to take its trees",
                        name_nodes(*jobs.record(state.next), unconfirmed)),
            {}};
  }
  return {state.trouble.empty() ? "is about to be repaired" : state.trouble, {}};
}

}  // namespace tally::control
