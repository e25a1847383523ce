#include "control/coordinator/plans.h"

#include <fmt/format.h>

namespace tally::control {

std::string SetPlan::title() const {
  return job.empty() ? fmt::format("the plan of epoch {} for all jobs", machines.file.epoch)
                     : fmt::format("its plan of epoch {}", machines.file.epoch);
}

Outcome Plans::set(const std::string& job, MachinePlan plan) {
  if (all().size() >= kMaxPlans && !all().contains(job)) {
    return Error{Status::kRefused,
                 fmt::format("{} plans are set, and no more are kept: take some back (tallyctl "
                             "plan set --closed-form --job NAME)",
                             all().size())};
  }
  store_.put_plan(job, std::make_shared<const SetPlan>(SetPlan{job, std::move(plan)}));
  return Unit{};
}

std::shared_ptr<const SetPlan> Plans::find(const std::string& job) const {
  auto found = all().find(job);
  if (found == all().end()) found = all().find("");
  return found == all().end() ? nullptr : found->second;
}

}  // namespace tally::control
