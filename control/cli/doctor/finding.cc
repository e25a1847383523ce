#include "control/cli/doctor/finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "control/cli/common/tables.h"

namespace tally::control::doctor {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 4> kLevelNames = {"ok", "note", "warning", "problem"};
constexpr std::array<std::string_view, 4> kPlurals = {"ok", "notes", "warnings", "problems"};

// Files and nodes may hold any text, so control characters in it must not reach the terminal.
std::string printable(const std::string& text) {
  return format_value(text, Format::kText);
}

// The remedy for a value that cannot be read depends on the reason.
std::string remedy_for(const Error& error) {
  switch (error.status) {
    case Status::kRefused:
      return "run it as root to see it";
    case Status::kUnavailable:
      return "look at the host: a container or another kernel may not show it here";
    default:
      return "look at it by hand";
  }
}

std::string summary(std::span<const Examined> report) {
  std::string text;
  for (const Level level : {Level::kProblem, Level::kWarning, Level::kNote, Level::kOk}) {
    const std::size_t found = count(report, level);
    const auto index = static_cast<std::size_t>(level);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", found,
                        found == 1 ? kLevelNames[index] : kPlurals[index]);
  }
  return text;
}

}  // namespace

std::string_view level_name(Level level) {
  return kLevelNames[static_cast<std::size_t>(level)];
}

Finding ok(std::string what, std::string value) {
  return {Level::kOk, std::move(what), std::move(value), {}};
}

Finding note(std::string what, std::string value, std::string remedy) {
  return {Level::kNote, std::move(what), std::move(value), std::move(remedy)};
}

Finding warning(std::string what, std::string value, std::string remedy) {
  return {Level::kWarning, std::move(what), std::move(value), std::move(remedy)};
}

Finding problem(std::string what, std::string value, std::string remedy) {
  return {Level::kProblem, std::move(what), std::move(value), std::move(remedy)};
}

Finding unknown(std::string what, const Error& error) {
  return note(std::move(what), fmt::format("unknown ({})", error.message), remedy_for(error));
}

std::size_t count(std::span<const Examined> report, Level level) {
  std::size_t found = 0;
  for (const Examined& examined : report) {
    found += static_cast<std::size_t>(
        std::count_if(examined.findings.begin(), examined.findings.end(),
                      [level](const Finding& finding) { return finding.level == level; }));
  }
  return found;
}

std::string render(std::span<const Examined> report) {
  std::size_t width = 0;
  for (const Examined& examined : report) width = std::max(width, examined.check.size());
  constexpr std::size_t kLevelWidth = 7;
  std::string text;
  for (const Examined& examined : report) {
    for (const Finding& finding : examined.findings) {
      text += fmt::format("{:<{}}  {:<{}}  {}: {}\n", level_name(finding.level), kLevelWidth,
                          examined.check, width, printable(finding.what), printable(finding.value));
      if (finding.remedy.empty()) continue;
      text += fmt::format("{:<{}}  -> {}\n", "", kLevelWidth, printable(finding.remedy));
    }
  }
  return text + summary(report) + "\n";
}

json to_json(std::span<const Examined> report) {
  json findings = json::array();
  for (const Examined& examined : report) {
    for (const Finding& finding : examined.findings) {
      findings.push_back({{"check", examined.check},
                          {"level", level_name(finding.level)},
                          {"what", finding.what},
                          {"value", finding.value},
                          {"remedy", finding.remedy}});
    }
  }
  return {{"findings", findings},
          {"problems", count(report, Level::kProblem)},
          {"warnings", count(report, Level::kWarning)},
          {"notes", count(report, Level::kNote)}};
}

}  // namespace tally::control::doctor
