#include "control/cli/doctor/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/text/nearest.h"
#include "control/cli/common/standard_output.h"

namespace tally::control::doctor {
namespace {

using nlohmann::json;

constexpr int kHasProblem = 1;
constexpr int kUsage = 2;

Error no_such_check(const std::string& name) {
  std::vector<std::string_view> known;
  for (const Check& check : all_checks()) known.push_back(check.name);
  return {Status::kInvalidArgument,
          fmt::format("--check {}: there is no such check{}; tallyctl doctor --list shows them",
                      name, did_you_mean(name, known))};
}

int list_checks(bool as_json) {
  json list = json::array();
  std::string lines;
  for (const Check& check : all_checks()) {
    list.push_back({{"check", check.name}, {"about", check.about}});
    lines += fmt::format("{:<10} {}\n", check.name, check.about);
  }
  return print_out(as_json ? list.dump(2) + "\n" : lines, "tallyctl") ? 0 : kHasProblem;
}

int refuse(const Error& error) {
  fmt::print(stderr, "tallyctl: {}\n", error.message);
  return kUsage;
}

}  // namespace

CLI::App* add_doctor(CLI::App& app, DoctorArguments& arguments) {
  auto* doctor = app.add_subcommand(
      "doctor", "checks this machine for what RDMA and a node need, and says what to do");
  doctor
      ->add_option("--check", arguments.checks,
                   "run this check alone (--list shows the names); may be repeated")
      ->allow_extra_args(false)
      ->type_name("NAME");
  doctor
      ->add_option("--config", arguments.config,
                   "the node's configuration: its shards, hugepages and limits are taken from it")
      ->type_name("FILE");
  doctor
      ->add_option("--path", arguments.path_to,
                   "also find out how large a packet gets to this host")
      ->type_name("HOST");
  doctor->add_flag("--list", arguments.list, "name the checks, and run none");
  doctor->footer(
      "Needs no node and changes nothing. With --json the findings as JSON. A node is asked where\n"
      "one answers; with --address one has to.\n"
      "Exit status: 0 without a problem (there may be warnings and notes), 1 with one, 2 for "
      "wrong\n"
      "usage. docs/doctor.md says more.");
  return doctor;
}

Result<std::vector<const Check*>> chosen_checks(const DoctorArguments& arguments) {
  for (const std::string& name : arguments.checks) {
    if (find_check(name) == nullptr) return no_such_check(name);
    if (name == "path" && arguments.path_to.empty()) {
      return Error{Status::kInvalidArgument, "--check path: needs --path HOST too"};
    }
  }
  std::vector<const Check*> chosen;
  for (const Check& check : all_checks()) {
    const bool named = std::find(arguments.checks.begin(), arguments.checks.end(), check.name) !=
                       arguments.checks.end();
    const bool is_path = check.name == "path";
    const bool wanted = is_path ? !arguments.path_to.empty() : arguments.checks.empty() || named;
    if (wanted) chosen.push_back(&check);
  }
  return chosen;
}

int run_doctor(const DoctorArguments& arguments, const DoctorOptions& options) {
  if (arguments.list) return list_checks(options.as_json);
  const auto checks = chosen_checks(arguments);
  if (!checks) return refuse(checks.error());
  ThisSystem system;
  Machine machine{Files(),           system,          std::nullopt,
                  arguments.path_to, options.address, options.address_was_given,
                  options.timeout};
  if (!arguments.config.empty()) {
    auto config = load_config(arguments.config, {});
    if (!config) return refuse(config.error());
    machine.config = std::move(config).value();
  }
  std::vector<Examined> report;
  for (const Check* check : *checks) report.push_back(examine(*check, machine));
  const std::string text =
      options.as_json ? to_json(report).dump(2, ' ', false, json::error_handler_t::replace) + "\n"
                      : render(report);
  if (!print_out(text, "tallyctl")) return kHasProblem;
  return count(report, Level::kProblem) == 0 ? 0 : kHasProblem;
}

}  // namespace tally::control::doctor
