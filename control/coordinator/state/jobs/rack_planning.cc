#include "control/coordinator/state/jobs/rack_planning.h"

#include <utility>

#include "control/coordinator/layout/rack_machines.h"

namespace tally::control {

void RackPlanning::note_members() {
  if (!is_on_ || seen_ == members_.revision()) return;
  seen_ = members_.revision();
  const Members usable = members_.usable();
  std::optional<plan::MachineFile> machines;
  if (usable.size() > 1) machines = rack_machines(usable);
  wanted_ = machines ? plan::write_machines(*machines) : "";
  machines_ = machines ? std::move(*machines) : plan::MachineFile{};
}

std::optional<RackPlanning::Request> RackPlanning::take_request() {
  note_members();
  if (!is_due() || !in_flight_.empty()) return std::nullopt;
  in_flight_ = wanted_;
  return Request{++number_, machines_};
}

bool RackPlanning::made(std::uint64_t number, Result<plan::Plan> plan) {
  if (number != number_ || in_flight_.empty()) return false;
  note_members();
  const std::string machines = std::exchange(in_flight_, "");
  if (machines != wanted_) return false;
  made_ = machines;
  plan_ = nullptr;
  if (plan) {
    SetPlan trees{"", {std::move(plan).value(), 0}, PlanSource::kRacks};
    asks_for_hosts_ = asks_for_hosts(trees.machines);
    plan_ = std::make_shared<const SetPlan>(std::move(trees));
  }
  return plan_ != nullptr;
}

std::shared_ptr<const SetPlan> RackPlanning::plan() const {
  const bool is_current = seen_ == members_.revision() && !wanted_.empty() && wanted_ == made_;
  return is_current ? plan_ : nullptr;
}

}  // namespace tally::control
