// For tests: what tallyctl's command line makes of `plan ...`.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "control/plan_command.h"

namespace tally::control {

// Nothing: `arguments` are filled in; else what tallyctl answers to words that it cannot read.
inline std::optional<PlanAnswer> read_plan_words(std::vector<std::string> words,
                                                 PlanArguments& arguments) {
  CLI::App app("", "tallyctl");
  add_plan(app, arguments);
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  words.emplace_back("plan");
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return PlanAnswer{2, "", error.what()};
  }
  return std::nullopt;
}

}  // namespace tally::control
