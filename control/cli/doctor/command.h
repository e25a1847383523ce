// tallyctl doctor: its options and its report.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/cli/doctor/checks/checks.h"

namespace tally::control::doctor {

struct DoctorArguments {
  std::vector<std::string> checks;  // empty: all
  std::string config;               // a configuration file of tallyd; empty: none
  std::string path_to;              // a host; empty: none
  bool list = false;
};

// Adds the subcommand. The parser writes the given values to `arguments`.
CLI::App* add_doctor(CLI::App& app, DoctorArguments& arguments);

// Returns the requested checks in the order of all_checks(). With a host, it includes the path
// check. An error names the wrong option.
Result<std::vector<const Check*>> chosen_checks(const DoctorArguments& arguments);

struct DoctorOptions {
  std::string address;
  bool address_was_given = false;
  double timeout = 5;
  bool as_json = false;
};

// Runs the checks and prints the report. Returns the exit status: 0 without a problem, 1 with a
// problem or a failed output, 2 for wrong usage.
int run_doctor(const DoctorArguments& arguments, const DoctorOptions& options);

}  // namespace tally::control::doctor
