// The store's records in JSON. What is read has been written by this release or another one, so
// reading validates; nullopt: the text is no valid record.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "control/coordinator/records/store.h"
#include "control/coordinator/state/plans.h"

namespace tally::control {

std::string member_text(const Member& member);
std::optional<Member> read_member(std::string_view text);

std::string set_plan_text(const SetPlan& plan);
std::shared_ptr<const SetPlan> read_set_plan(std::string_view text);  // null: not valid

std::string job_text(const JobRecord& job);
// A job's plan that is among `plans` shares its record.
SharedJob read_job(std::string_view text, const PlansByJob& plans);  // null: not valid

std::string speeds_text(const std::map<std::string, Measured>& speeds);
std::optional<std::map<std::string, Measured>> read_speeds(std::string_view text);

}  // namespace tally::control
