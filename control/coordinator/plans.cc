#include "control/coordinator/plans.h"

#include <fmt/format.h>

namespace tally::control {

std::string SetPlan::title() const {
  return job.empty() ? fmt::format("the plan of epoch {} for all jobs", machines.file.epoch)
                     : fmt::format("its plan of epoch {}", machines.file.epoch);
}

Outcome Plans::set(const std::string& job, MachinePlan plan) {
  if (plans_.size() >= kMaxPlans && !plans_.contains(job)) {
    return Error{Status::kRefused,
                 fmt::format("{} plans are set, and no more are kept: take some back (tallyctl "
                             "plan set --closed-form --job NAME)",
                             plans_.size())};
  }
  plans_[job] = std::make_shared<const SetPlan>(SetPlan{job, std::move(plan)});
  return Unit{};
}

std::shared_ptr<const SetPlan> Plans::find(const std::string& job) const {
  auto found = plans_.find(job);
  if (found == plans_.end()) found = plans_.find("");
  return found == plans_.end() ? nullptr : found->second;
}

}  // namespace tally::control
