// tallyctl plan explain-host: how the GPUs of one machine sum before Tally.
#pragma once

#include "control/cli/plan/plan_command.h"

namespace tally::control {

// Adds the subcommand to `plan`; parsing the command line fills in `arguments`, which is borrowed.
void add_explain_host(CLI::App& plan, PlanArguments& arguments);

// Reads the files that the arguments name; prints nothing.
PlanAnswer answer_explain_host(const PlanArguments& arguments, bool as_json);

}  // namespace tally::control
