// `tallyctl plan sim`: the same simulation and table as `tally-perf sim`.
#pragma once

#include "control/cli/plan/plan_command.h"
#include "control/sim/command/options.h"

namespace tally::simulator {

struct PlanSimArguments {
  bool is_chosen = false;  // whether the command line has this subcommand
  SimOptions options;
};

// Adds the subcommand to `plan`; parsing the command line fills in `arguments`, which is borrowed.
void add_plan_sim(CLI::App& plan, PlanSimArguments& arguments);

// Reads the plan and simulates; prints nothing.
control::PlanAnswer answer_plan_sim(const SimOptions& options, bool as_json);

}  // namespace tally::simulator
