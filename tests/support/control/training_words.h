// For tests: parses the words of a `tallyctl plan pipeline` or `plan groups` command line.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/cli/training/command.h"
#include "tests/support/control/plan_words.h"

namespace tally::control {

// Fills in `arguments` and returns nullopt; on words that it cannot parse, returns tallyctl's
// answer.
inline std::optional<PlanAnswer> read_training_words(std::vector<std::string> words,
                                                     TrainingArguments& arguments) {
  CLI::App app("", "tallyctl");
  PlanArguments others;
  add_training(*add_plan(app, others), arguments);
  return parse_plan_words(app, std::move(words));
}

}  // namespace tally::control
