// What limits a plan and what would make it faster, for people and as JSON. Pure.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "control/cli/plan/plan_report.h"
#include "control/plan/advice/advice.h"
#include "control/plan/model/plan.h"

namespace tally::control {

// The report as JSON, without advice; docs/planning.md lists the keys. Precondition: the plan has
// passed plan::validate(), and the domain is one of its domains.
nlohmann::json explain_report(const plan::Plan& plan, const plan::Domain& domain,
                              const PlanQuestion& question);

// Adds the advice for the plan's network, or why there is none. The bound of the advice takes the
// place of a bound that names no places.
void add_advice(nlohmann::json& report, const plan::Network& network,
                const Result<plan::Advice>& advice);

// The report in words. Tables show at most `rows` rows.
std::string render_explanation(const nlohmann::json& report, std::size_t rows);

}  // namespace tally::control
