#include "client/operations/plan_switch.h"

#include <utility>

namespace tally::client {

void PlanSwitch::hold() {
  if (stage_ == Stage::kSteady) stage_ = Stage::kHolding;
}

void PlanSwitch::know(FirstRounds first) {
  if (stage_ != Stage::kHolding) return;
  stage_ = Stage::kKnowing;
  first_ = std::move(first);
}

void PlanSwitch::go(const std::map<std::uint32_t, std::uint32_t>& next) {
  if (stage_ != Stage::kKnowing) return;
  stage_ = Stage::kMoving;
  for (const auto& [tag, first] : first_) {
    const auto own = next.find(tag);
    if ((own == next.end() ? 0 : own->second) < first) behind_.insert(tag);
  }
}

void PlanSwitch::finish() {
  stage_ = Stage::kSteady;
  first_.clear();
  behind_.clear();
}

void PlanSwitch::call_off() {
  if (holds()) finish();
}

void PlanSwitch::interrupt() {
  finish();
  hold();
}

FirstRounds PlanSwitch::repaired() {
  FirstRounds first = std::move(first_);
  finish();
  return first;
}

bool PlanSwitch::go_on_alone() {
  if (stage_ == Stage::kKnowing) return false;
  call_off();
  return true;
}

std::uint32_t PlanSwitch::first(std::uint32_t tag) const {
  const auto found = first_.find(tag);
  return found == first_.end() ? 0 : found->second;
}

PlanSwitch::By PlanSwitch::carrier(std::uint32_t tag, std::uint32_t round) const {
  if (holds()) return By::kNone;
  return stage_ == Stage::kMoving && round < first(tag) ? By::kOld : By::kNew;
}

void PlanSwitch::posted(std::uint32_t tag, std::uint32_t round) {
  if (stage_ == Stage::kMoving && round + 1 == first(tag)) behind_.erase(tag);
}

}  // namespace tally::client
