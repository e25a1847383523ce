// tallyctl probe: measures machines and the network between them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tally::control::probe {

struct ProbeArguments {
  std::vector<std::string> to;
  double seconds = 1;
  bool no_pairs = false;
  bool racks = false;
  std::string config;  // a configuration file of tallyd with security.secret_file
  std::string out;
};

// Adds the subcommand. The parser writes the given values to `arguments`.
CLI::App* add_probe(CLI::App& app, ProbeArguments& arguments);

struct ProbeRun {
  std::string address;
  double timeout = 5;  // seconds, for answers without a measurement
  bool as_json = false;
};

// Measures and prints. Returns the exit status: 0; 1 when something could not be measured or
// written; 2 for wrong usage.
int run_probe(const ProbeArguments& arguments, const ProbeRun& run);

}  // namespace tally::control::probe
