// What a GPU machine has inside, what each strategy costs there, and which one is chosen, for
// people and as JSON. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "gpu_bridge/machine/planner.h"

namespace tally::control {

// The report as JSON; docs/planning.md lists the keys.
nlohmann::json host_report(const host::Routes& routes, const host::HostPlan& plan);

// The report of host_report() as a tree and tables.
std::string render_host_report(const nlohmann::json& report);

}  // namespace tally::control
