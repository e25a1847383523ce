// tallyctl plan explain: what limits a plan, and what would make it faster.
#pragma once

#include "control/cli/inspect/command.h"

namespace tally::control {

// Adds the subcommand to `plan`; parsing the command line fills in `arguments`, which is borrowed.
void add_explain(CLI::App& plan, InspectArguments& arguments);

PlanAnswer answer_explain(const ExplainArguments& arguments, bool as_json);

}  // namespace tally::control
