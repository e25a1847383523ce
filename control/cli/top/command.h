// tallyctl top: a live view of one node, or of all nodes of its cluster.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tally::control::top {

struct TopArguments {
  double interval = 1;  // seconds between two looks
  bool once = false;
};

// Adds the subcommand. The parser writes the given values to `arguments`.
CLI::App* add_top(CLI::App& app, TopArguments& arguments);

struct TopOptions {
  std::string address;
  double timeout = 5;  // seconds, for a node's answers
  bool as_json = false;
};

// Runs until the user ends it or standard output fails; with `once`, until the first view. Returns
// the exit status: 0; 1 when no address answers or standard output fails; 128 + the number of a
// signal other than Ctrl-C's that ended it.
int run_top(const TopArguments& arguments, const TopOptions& options);

}  // namespace tally::control::top
