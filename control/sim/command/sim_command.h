// `tally-perf sim`: reads a plan, simulates, and prints a table. plan_sim.h has the same for
// tallyctl.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "control/plan/model/plan.h"
#include "control/sim/command/options.h"

namespace tally::simulator {

// Simulates everything that the options ask for on this plan. Returns an object with "rows", one
// for each work and size, and "left_out": why baselines of "all" are not among them. An error names
// the flag and the value. Precondition: the plan has passed
// plan::validate().
Result<nlohmann::json> simulate_all(const plan::Plan& plan, const SimOptions& options);

// The table for people.
std::string render(const nlohmann::json& report);

// Reads the plan of the options and does the same. An error names the file, too.
Result<nlohmann::json> simulate_file(const SimOptions& options);

// argv[1] is "sim". Returns the exit status.
int run_sim(int argc, char** argv);

}  // namespace tally::simulator
