// For tests: parses the words of a `tallyctl plan ...` command line.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/cli/plan/plan_command.h"

namespace tally::control {

// Parses the words after `tallyctl plan`. Returns nullopt; on words that the app cannot parse,
// returns tallyctl's answer.
inline std::optional<PlanAnswer> parse_plan_words(CLI::App& app, std::vector<std::string> words) {
  std::reverse(words.begin(), words.end());  // CLI11 expects reverse order
  words.emplace_back("plan");
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return PlanAnswer{2, "", error.what()};
  }
  return std::nullopt;
}

// Does the same, and fills in `arguments`.
inline std::optional<PlanAnswer> read_plan_words(std::vector<std::string> words,
                                                 PlanArguments& arguments) {
  CLI::App app("", "tallyctl");
  add_plan(app, arguments);
  return parse_plan_words(app, std::move(words));
}

}  // namespace tally::control
