// For tests: parses the words of a `tallyctl plan pipeline` or `plan groups` command line.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "control/cli/training/command.h"

namespace tally::control {

// Fills in `arguments` and returns nullopt; on words that it cannot parse, returns tallyctl's
// answer.
inline std::optional<PlanAnswer> read_training_words(std::vector<std::string> words,
                                                     TrainingArguments& arguments) {
  CLI::App app("", "tallyctl");
  PlanArguments others;
  add_training(*add_plan(app, others), arguments);
  std::reverse(words.begin(), words.end());  // CLI11 expects reverse order
  words.emplace_back("plan");
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return PlanAnswer{2, "", error.what()};
  }
  return std::nullopt;
}

}  // namespace tally::control
