// What load a plan puts on its network, for people and as JSON. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "control/plan/model/load.h"
#include "control/plan/model/plan.h"

namespace tally::control {

struct PlanQuestion {
  std::uint64_t bytes = 256 << 20;  // size of the operation whose time is predicted
  double hop_seconds = 5e-6;        // latency of one hop
};

// The report as JSON; docs/planning.md lists the keys. Precondition: the plan has passed
// plan::validate().
nlohmann::json plan_report(const plan::Plan& plan, const PlanQuestion& question);

// A place that bytes pass, and how busy it is in a plan of this tau: the entries of "loads".
nlohmann::json place_report(const plan::Load& load, double tau, const plan::Network& network);

// The table of such places, with at most `rows` rows, the busiest first.
std::string render_places(nlohmann::json places, std::size_t rows);

// The report of plan_report() as tables. The tables of trees and of loads show at most `rows` rows,
// the heaviest first.
std::string render_plan_report(const nlohmann::json& report, std::size_t rows);

}  // namespace tally::control
