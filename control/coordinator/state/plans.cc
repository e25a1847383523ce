#include "control/coordinator/state/plans.h"

#include <fmt/format.h>

#include <algorithm>

namespace tally::control {

const char* source_name(PlanSource source) {
  switch (source) {
    case PlanSource::kFile:
      return "file";
    case PlanSource::kClosedForm:
      return "closed form";
    case PlanSource::kRacks:
      break;
  }
  return "racks";
}

std::string SetPlan::title() const {
  if (source == PlanSource::kRacks) return "the coordinator's plan for racks";
  return job.empty() ? fmt::format("the plan of epoch {} for all jobs", machines.file.epoch)
                     : fmt::format("its plan of epoch {}", machines.file.epoch);
}

Outcome Plans::may_have(const std::set<std::string>& jobs) const {
  const auto more = static_cast<std::size_t>(std::count_if(
      jobs.begin(), jobs.end(), [this](const auto& job) { return !all().contains(job); }));
  if (more == 0 || all().size() + more <= kMaxPlans) return Unit{};
  return Error{Status::kRefused,
               fmt::format("{} plans are set, and {} at most are kept: take some back (tallyctl "
                           "plan set --closed-form --job NAME)",
                           all().size(), kMaxPlans)};
}

Outcome Plans::set(const std::string& job, MachinePlan plan) {
  if (auto room = may_have({job}); !room) return room;
  store_.put_plan(job, std::make_shared<const SetPlan>(SetPlan{job, std::move(plan)}));
  return Unit{};
}

std::shared_ptr<const SetPlan> Plans::find(const std::string& job) const {
  auto found = all().find(job);
  if (found == all().end()) found = all().find("");
  return found == all().end() ? nullptr : found->second;
}

}  // namespace tally::control
