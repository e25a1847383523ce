// For tests: parses the words of a `tallyctl plan ...` command line.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "control/cli/plan/plan_command.h"

namespace tally::control {

// Fills in `arguments` and returns nullopt; on words that it cannot parse, returns tallyctl's
// answer.
inline std::optional<PlanAnswer> read_plan_words(std::vector<std::string> words,
                                                 PlanArguments& arguments) {
  CLI::App app("", "tallyctl");
  add_plan(app, arguments);
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
