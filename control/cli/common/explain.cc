#include "control/cli/common/explain.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string_view>
#include <vector>

#include "base/text/nearest.h"

namespace tally::control {
namespace {

// The last subcommand that was parsed, or the program itself.
const CLI::App& reached(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().back();
  return *at;
}

std::string path_of(const CLI::App& app, const CLI::App& end, const std::string& program) {
  std::string path = program;
  for (const CLI::App* at = &app; at != &end;) {
    at = at->get_subcommands().back();
    path += " " + at->get_name();
  }
  return path;
}

void add_flags(const CLI::App& app, std::vector<std::string>& flags) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
}

std::string unknown_flag(const CLI::App& app, const CLI::App& at, const std::string& path,
                         const std::string& word) {
  const std::string flag = word.substr(0, word.find('='));
  std::vector<std::string> flags;
  add_flags(app, flags);
  if (&at != &app) add_flags(at, flags);
  const std::vector<std::string_view> known(flags.begin(), flags.end());
  return fmt::format("{} has no flag {}{}", path, flag, did_you_mean(flag, known));
}

std::string names_of_commands(const CLI::App& at) {
  std::string list;
  for (const CLI::App* one : at.get_subcommands(nullptr)) {
    list += (list.empty() ? "" : ", ") + one->get_name();
  }
  return list;
}

std::string unknown_command(const CLI::App& at, const std::string& path, const std::string& word) {
  std::vector<std::string_view> known;
  for (const CLI::App* one : at.get_subcommands(nullptr)) known.push_back(one->get_name());
  if (known.empty()) return fmt::format("{} takes no \"{}\"", path, word);
  const std::string near = did_you_mean(word, known);
  if (!near.empty()) return fmt::format("{} has no command \"{}\"{}", path, word, near);
  return fmt::format("{} has no command \"{}\": give one of {}", path, word, names_of_commands(at));
}

}  // namespace

std::string explanation(const CLI::App& app, const CLI::ParseError& error,
                        const std::string& program) {
  const CLI::App& at = reached(app);
  const std::string path = path_of(app, at, program);
  const auto words = app.remaining(true);
  std::string what = error.what();
  const bool lacks_command = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr &&
                             at.get_require_subcommand_min() > at.get_subcommands().size();
  if (lacks_command) what = fmt::format("{} needs a command: {}", path, names_of_commands(at));
  if (!words.empty() && words.front() != "--") {
    const std::string& word = words.front();
    what =
        word.starts_with("-") ? unknown_flag(app, at, path, word) : unknown_command(at, path, word);
  }
  return fmt::format("{}: {}\n{} --help says more\n", program, what, path);
}

bool print_help_or_explain(const CLI::App& app, const CLI::ParseError& error,
                           const std::string& program) {
  if (error.get_exit_code() == 0) {
    app.exit(error);
    return true;
  }
  fmt::print(stderr, "{}", explanation(app, error, program));
  return false;
}

}  // namespace tally::control
