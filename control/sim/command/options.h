// The flags of `tallyctl plan sim` and `tally-perf sim`.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "control/sim/runs/simulate.h"

namespace CLI {
class App;
}  // namespace CLI

namespace tally::simulator {

// A failure as the command line names it.
struct NamedFailure {
  std::string machine;
  double at = 0;  // seconds
};

struct NamedSlow {
  std::string machine;
  double factor = 1;
};

struct SimOptions {
  std::string plan;  // path
  std::string domain;
  std::vector<std::uint64_t> bytes = {std::uint64_t{256} << 20};
  std::uint64_t chunk = 0;  // 0: the plan's; for baselines 256 KiB
  std::vector<std::string> baselines;
  bool plan_left_out = false;  // only baselines
  std::string rules = "ideal";
  std::string order = "oldest";
  std::string forwarding = "cut";
  std::uint32_t window = 0;
  std::uint32_t in_flight = 0;
  std::uint64_t shard_window = 4 << 20;
  double pace = 1;
  double hop_us = 0;
  std::uint64_t seed = 1;
  double stragglers_ms = 0;
  std::vector<NamedSlow> slow;
  std::vector<NamedFailure> failures;  // at most one
  double repair_s = 1;
  std::string json;  // path; "-" for stdout
};

// Adds the flags that both programs have: all but --plan and --json. Parsing the command line fills
// in `options`, which is borrowed.
void add_sim_flags(CLI::App& app, SimOptions& options);

// What the columns of the table mean, and the exit statuses; then the examples, with these words
// before the flags.
std::string sim_footer(const std::string& command);

// The command line of `tally-perf sim`. Returns the options, or the exit status after the parser
// has printed its text (--help or an error). argv[0] is the program, argv[1] is "sim".
std::variant<SimOptions, int> parse_sim_options(int argc, char** argv);

}  // namespace tally::simulator
