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
  std::string token;
  std::string config;  // a file for tallyd, for its cluster.token
  std::string out;
};

// Adds the subcommand; what is given is put into `arguments` when the command line is parsed.
CLI::App* add_probe(CLI::App& app, ProbeArguments& arguments);

struct ProbeRun {
  std::string address;
  double timeout = 5;  // seconds, for answers that take no measuring
  bool as_json = false;
};

// Measures and prints. Exit status: 0; 1 something could not be measured or written; 2 wrong usage.
int run_probe(const ProbeArguments& arguments, const ProbeRun& run);

}  // namespace tally::control::probe
