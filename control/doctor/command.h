// tallyctl doctor: its options, and a report.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/doctor/checks.h"

namespace tally::control::doctor {

struct DoctorArguments {
  std::vector<std::string> checks;  // empty: all
  std::string config;               // a file for tallyd; empty: none
  std::string path_to;              // a host; empty: none
  bool list = false;
};

// Adds the subcommand; what is given is put into `arguments` when the command line is parsed.
CLI::App* add_doctor(CLI::App& app, DoctorArguments& arguments);

// The checks that were asked for, in the order of all_checks(); with a host, the one of the path
// too. An error names the option that is wrong.
Result<std::vector<const Check*>> chosen_checks(const DoctorArguments& arguments);

struct DoctorOptions {
  std::string address;
  bool address_was_given = false;
  double timeout = 5;
  bool as_json = false;
};

// Runs and prints. The exit status: 0 without a problem, 1 with one, 2 for wrong usage.
int run_doctor(const DoctorArguments& arguments, const DoctorOptions& options);

}  // namespace tally::control::doctor
