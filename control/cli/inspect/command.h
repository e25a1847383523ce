// The subcommands of tallyctl plan that look into plans: explain, compare and draw. They need no
// node.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "control/cli/plan/plan_command.h"

namespace tally::control {

struct ExplainArguments {
  std::string plan;     // files
  std::string network;  // empty: the plan's
  std::string domain;   // empty: the first
  std::string bytes = "256MiB";
  double hop_us = 5;
  std::string helper;      // speed of the one more helper; empty: as those that there are
  std::string helper_sum;  // what it sums; empty: with `helper`, as fast as bytes come
  double faster = 2;       // how many times faster links, NICs and sums may be
  bool no_changes = false;
  bool all = false;
};

struct CompareArguments {
  std::string first;  // files
  std::string second;
  std::string domain;
  std::string bytes = "256MiB";
  double hop_us = 5;
  bool all = false;
};

struct DrawArguments {
  std::string plan;  // a file
  std::string domain;
  std::string bytes = "256MiB";
  std::optional<std::size_t> tree;  // empty: all of the class
  bool svg = false;
  std::string dot = "dot";  // the program, or its path
  std::string out;          // the file to write; empty: stdout
};

enum class InspectVerb : std::uint8_t { kNone, kExplain, kCompare, kDraw };

struct InspectArguments {
  InspectVerb verb = InspectVerb::kNone;  // kNone: the command line has none of them
  ExplainArguments explain;
  CompareArguments compare;
  DrawArguments draw;
};

// Adds the subcommands to `plan`; parsing the command line fills in `arguments`, which is borrowed.
void add_inspect(CLI::App& plan, InspectArguments& arguments);

// Reads and writes the files that the arguments name; prints nothing. Precondition: the arguments
// have a verb.
PlanAnswer answer_inspect(const InspectArguments& arguments, bool as_json);

}  // namespace tally::control
