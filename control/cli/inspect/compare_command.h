// tallyctl plan compare: two plans side by side.
#pragma once

#include "control/cli/inspect/command.h"

namespace tally::control {

// Adds the subcommand to `plan`; parsing the command line fills in `arguments`, which is borrowed.
void add_compare(CLI::App& plan, InspectArguments& arguments);

PlanAnswer answer_compare(const CompareArguments& arguments, bool as_json);

}  // namespace tally::control
