// tallyctl plan groups: divides workers of unequal speed into groups that train asynchronously from
// each other.
#pragma once

#include "control/cli/training/command.h"

namespace tally::control {

// Adds the subcommand to `plan`; parsing the command line fills in `arguments`, which is borrowed.
void add_groups(CLI::App& plan, TrainingArguments& arguments);

// Reads and writes the files that the arguments name; prints nothing.
PlanAnswer answer_groups(const GroupsArguments& arguments, bool as_json);

}  // namespace tally::control
