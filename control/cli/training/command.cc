#include "control/cli/training/command.h"

#include "control/cli/training/groups_command.h"
#include "control/cli/training/pipeline_command.h"

namespace tally::control {

void add_training(CLI::App& plan, TrainingArguments& arguments) {
  add_pipeline(plan, arguments);
  add_groups(plan, arguments);
}

PlanAnswer answer_training(const TrainingArguments& arguments, bool as_json) {
  return arguments.verb == TrainingVerb::kPipeline ? answer_pipeline(arguments.pipeline, as_json)
                                                   : answer_groups(arguments.groups, as_json);
}

}  // namespace tally::control
