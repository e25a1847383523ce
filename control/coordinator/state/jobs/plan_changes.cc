#include "control/coordinator/state/jobs/plan_changes.h"

#include <algorithm>

namespace tally::control {
namespace {

void want(JobState& state, Wanted wanted) {
  state.wanted = std::max(state.wanted, wanted);
  state.trouble.clear();
}

}  // namespace

void PlanChanges::members_changed(Nanos now, Nanos calm) {
  if (!jobs_.states().empty()) calm_at_ = now + calm;
}

void PlanChanges::plan_made(Nanos now) {
  if (calm_at_ == kForever && !jobs_.states().empty()) calm_at_ = now;
}

void PlanChanges::want_new_layouts() {
  for (auto& [epoch, state] : jobs_.states()) {
    if (state.is_alive()) want(state, Wanted::kOwnPlan);
  }
}

void PlanChanges::want_plan_in_force(const std::string& job) {
  for (auto& [epoch, state] : jobs_.states()) {
    if (!state.is_alive()) continue;
    if (!job.empty() && jobs_.record(epoch)->name != job) continue;
    want(state, Wanted::kPlanInForce);
  }
}

std::vector<std::uint32_t> PlanChanges::ready(Nanos now) {
  if (calm_at_ <= now && !awaits_plan_) {
    calm_at_ = kForever;
    renew_in_force();
  }
  retry_for_returning(now);
  std::vector<std::uint32_t> epochs;
  for (const auto& [epoch, state] : jobs_.states()) {
    if (state.next != 0 || state.stage != JobStage::kRunning) continue;
    if (state.wanted == Wanted::kNothing || !jobs_.ranks_not_listening(state).empty()) continue;
    const JobState* before = jobs_.find(jobs_.record(epoch)->follows);
    if (before == nullptr || before->stage == JobStage::kOver) epochs.push_back(epoch);
  }
  return epochs;
}

// Only for jobs that run by the plan in force. A plan that was set since they formed waits for an
// operator's request.
void PlanChanges::renew_in_force() {
  for (auto& [epoch, state] : jobs_.states()) {
    const JobRecord& job = *jobs_.record(epoch);
    if (!state.is_alive() || job.made_by == nullptr) continue;
    const auto plan = plans_.find(job.name);
    const bool by_operator = job.made_by->source == PlanSource::kFile;
    if (plan == nullptr ? by_operator : plan != job.made_by) continue;
    want(state, Wanted::kOwnPlan);
  }
}

// A change that ranks waited for has been called off: another one begins after a time.
void PlanChanges::retry_for_returning(Nanos now) {
  const bool again = again_at_ <= now;
  if (again) again_at_ = kForever;
  for (auto& [epoch, state] : jobs_.states()) {
    const bool waits = !state.returning.empty() && state.stage == JobStage::kRunning &&
                       state.next == 0 && state.wanted == Wanted::kNothing;
    if (!waits) continue;
    if (again) {
      want(state, Wanted::kOwnPlan);
    } else if (again_at_ == kForever) {
      again_at_ = now + kCalm;
    }
  }
}

Nanos PlanChanges::next_deadline() const {
  return awaits_plan_ ? again_at_ : std::min(calm_at_, again_at_);
}

}  // namespace tally::control
