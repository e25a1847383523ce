// tallyctl plan pipeline: divides a model into stages of a pipeline on GPUs that may differ.
#pragma once

#include "control/cli/training/command.h"

namespace tally::control {

// Adds the subcommand to `plan`; parsing the command line fills in `arguments`, which is borrowed.
void add_pipeline(CLI::App& plan, TrainingArguments& arguments);

// Reads and writes the files that the arguments name; prints nothing.
PlanAnswer answer_pipeline(const PipelineArguments& arguments, bool as_json);

}  // namespace tally::control
