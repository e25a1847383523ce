// Code that the flags of several tools share.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

namespace tally::control {

// Accepts a number from `low` to `high`. CLI::Range would let NaN pass.
inline CLI::Validator number_in(double low, double high) {
  const std::string range = fmt::format("in [{} - {}]", low, high);
  const auto check = [=](std::string& text) -> std::string {
    double value = 0;
    const bool fine = CLI::detail::lexical_cast(text, value) && value >= low && value <= high;
    return fine ? "" : fmt::format("{} is no number {}", text, range);
  };
  return {check, range, ""};
}

}  // namespace tally::control
