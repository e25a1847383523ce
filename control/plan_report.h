// What a plan asks of its network, for people and as JSON. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "control/plan/plan.h"

namespace tally::control {

struct PlanQuestion {
  std::uint64_t bytes = 256 << 20;  // of the operation whose time is predicted
  double hop_seconds = 5e-6;        // latency of one hop
};

// docs/planning.md has the keys. Precondition: the plan has passed plan::validate().
nlohmann::json plan_report(const plan::Plan& plan, const PlanQuestion& question);

// Of plan_report(): tables; those of trees and of loads end after so many rows, the heaviest first.
std::string render_plan_report(const nlohmann::json& report, std::size_t rows);

}  // namespace tally::control
