// tallyctl plan draw: the trees of a plan as a picture.
#pragma once

#include "control/cli/inspect/command.h"

namespace tally::control {

// Adds the subcommand to `plan`; parsing the command line fills in `arguments`, which is borrowed.
void add_draw(CLI::App& plan, InspectArguments& arguments);

PlanAnswer answer_draw(const DrawArguments& arguments);

}  // namespace tally::control
