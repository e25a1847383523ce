// tallyctl top: a live view of a node, or of all nodes of its cluster.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tally::control::top {

struct TopArguments {
  double interval = 1;  // seconds between two looks
  bool once = false;
};

// Adds the subcommand; what is given is put into `arguments` when the command line is parsed.
CLI::App* add_top(CLI::App& app, TopArguments& arguments);

struct TopOptions {
  std::string address;
  double timeout = 5;  // seconds, for a node's answers
  bool as_json = false;
};

// Until the user ends it, or standard output is gone. Exit status: 0; 1 when nobody answers at the
// address; 128 + the signal that ended it, of other signals than Ctrl-C's.
int run_top(const TopArguments& arguments, const TopOptions& options);

}  // namespace tally::control::top
