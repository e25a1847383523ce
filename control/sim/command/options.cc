// The flags and the texts of --help.
#include "control/sim/command/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <utility>

#include "base/text/sizes.h"
#include "control/cli/common/explain.h"
#include "control/cli/common/flags.h"

namespace tally::simulator {
namespace {

constexpr int kWrongUsage = 2;

constexpr const char* kColumnsHelp = R"(
Columns (docs/simulator.md has the definitions):
  work           the plan, or the baseline
  bytes          of the operation
  time           from the begin until all workers have the result, in ms
  bound          tau x bytes: the time of the busiest link, NIC or sum, in ms
  ratio          time / bound
  algbw          bytes / time, in GB/s of 1e9 bytes
  machines       bytes that leave machines, over those that any trees must move there
  racks          the same for bytes that leave racks; - in one rack
  busiest        the busiest passage of the run, and the share of the time in which it moves bytes
A repaired operation has an asterisk behind its time.

Exit status: 0 simulated, 1 a file could not be written, 2 wrong usage or a plan that is refused.

Examples:
)";

constexpr const char* kExamples[] = {
    "--bytes 100M", "--bytes 16M,256M --baseline all", "--rules nodes --hop-us 10",
    "--stragglers-ms 5 --seed 7 --slow gpu3=2", "--fail sum1@0.05 --repair-s 0.5"};

// "gpu3<mark>2.5" to ("gpu3", 2.5). Names may contain the mark, so the last one counts.
std::optional<std::pair<std::string, double>> named_number(const std::string& text, char mark) {
  const auto at = text.rfind(mark);
  double number = 0;
  if (at == std::string::npos || at == 0) return std::nullopt;
  if (!CLI::detail::lexical_cast(text.substr(at + 1), number)) return std::nullopt;
  return std::pair(text.substr(0, at), number);
}

CLI::Option* add_size(CLI::App& app, const char* flag, std::uint64_t& target,
                      const std::string& help) {
  const auto parse = [&target, flag](const std::string& text) {
    const auto bytes = parse_size(text);
    if (!bytes) throw CLI::ValidationError(flag, bytes.error().message);
    if (*bytes == 0) throw CLI::ValidationError(flag, "must be above 0");
    target = *bytes;
  };
  return app.add_option_function<std::string>(flag, parse, help)->type_name("SIZE");
}

void add_work(CLI::App& app, SimOptions& options) {
  const char* group = "What is simulated";
  app.add_option("--domain", options.domain, "of the plan; left out: the first")
      ->type_name("NAME")
      ->group(group);
  app.add_option_function<std::vector<std::string>>(
         "--bytes",
         [&options](const std::vector<std::string>& texts) {
           options.bytes.clear();
           for (const std::string& text : texts) {
             const auto bytes = parse_size(text);
             if (!bytes) throw CLI::ValidationError("--bytes", bytes.error().message);
             if (*bytes == 0) throw CLI::ValidationError("--bytes", "must be above 0");
             options.bytes.push_back(*bytes);
           }
         },
         "of the operation; several: a row for each [256M]")
      ->delimiter(',')
      ->type_name("SIZE")
      ->group(group);
  app.add_option("--baseline", options.baselines,
                 "compare with these on the plan's network: " + baseline_names() + ", or all")
      ->delimiter(',')
      ->type_name("NAME")
      ->group(group);
  app.add_flag("--no-plan", options.plan_left_out, "only the baselines")->group(group);
  add_size(app, "--chunk", options.chunk,
           "bytes of the largest tile; left out: the plan's chunk, and 256K for baselines "
           "(byteps: 4096000 bytes)")
      ->group(group);
}

void add_faults(CLI::App& app, SimOptions& options) {
  const char* group = "What goes wrong";
  app.add_option("--stragglers-ms", options.stragglers_ms,
                 "mean delay of the workers' gradients (exponential), milliseconds")
      ->check(control::number_in(0, 1e9))
      ->capture_default_str()
      ->group(group);
  app.add_option("--seed", options.seed, "of the delays")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 53))
      ->capture_default_str()
      ->group(group);
  app.add_option_function<std::vector<std::string>>(
         "--slow",
         [&options](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             const auto named = named_number(text, '=');
             if (!named || !(named->second >= 1e-3) || !(named->second <= 1e6)) {
               throw CLI::ValidationError("--slow", text + " must be MACHINE=FACTOR, 0.001 to 1e6");
             }
             options.slow.push_back({named->first, named->second});
           }
         },
         "the machine's NIC is so many times slower than the plan says; may be repeated")
      ->allow_extra_args(false)
      ->type_name("MACHINE=FACTOR")
      ->group(group);
  app.add_option_function<std::string>(
         "--fail",
         [&options](const std::string& text) {
           const auto named = named_number(text, '@');
           if (!named || !(named->second >= 0) || !(named->second <= 1e9)) {
             throw CLI::ValidationError("--fail", text + " must be MACHINE@SECONDS");
           }
           options.failures = {{named->first, named->second}};
         },
         "the machine's node is lost then; another takes its vertices, and the operation begins "
         "anew. Trees only")
      ->type_name("MACHINE@SECONDS")
      ->group(group);
  app.add_option("--repair-s", options.repair_s, "from the loss to the new begin, seconds")
      ->check(control::number_in(0, 1e6))
      ->capture_default_str()
      ->group(group);
}

void add_rules(CLI::App& app, SimOptions& options) {
  const char* group = "How bytes move";
  app.add_option("--rules", options.rules,
                 "of the plan's trees. ideal: a tile goes on at once; nodes: as Tally's nodes "
                 "decide, with their windows and buffers")
      ->check(CLI::IsMember({"ideal", "nodes"}))
      ->capture_default_str()
      ->group(group);
  app.add_option(
         "--order", options.order,
         "which chunk a link takes first: the oldest, the first that has come, or those of each "
         "connection in turn")
      ->check(CLI::IsMember({"oldest", "fifo", "fair"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--forwarding", options.forwarding,
                 "of switches. cut: a chunk goes on with its first bytes; store: when it is whole")
      ->check(CLI::IsMember({"cut", "store"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--in-flight", options.in_flight,
                 "with ideal rules: tiles of all trees at once; 0: no bound")
      ->capture_default_str()
      ->group(group);
  app.add_option("--window", options.window,
                 "with the rules of nodes: buffers between nodes each way; 0: the plan's, else "
                 "the nodes choose")
      ->check(CLI::Range(0u, plan::kMostPieces))
      ->capture_default_str()
      ->group(group);
  add_size(app, "--shard-window", options.shard_window,
           "with the rules of nodes: shards.window_bytes [4M]")
      ->group(group);
  app.add_option(
         "--pace", options.pace,
         "with the rules of nodes: the plan's rate that nodes know, in multiples of what the "
         "network carries; 0: none")
      ->check(control::number_in(0, 100))
      ->capture_default_str()
      ->group(group);
  app.add_option("--hop-us", options.hop_us, "latency from machine to machine, microseconds")
      ->check(control::number_in(0, 1e6))
      ->capture_default_str()
      ->group(group);
  app.final_callback([&app, &options] {
    if (options.rules == "nodes") return;
    for (const char* flag : {"--window", "--shard-window", "--pace"}) {
      if (app.count(flag) > 0) throw CLI::RequiresError(flag, "--rules nodes");
    }
  });
}

}  // namespace

void add_sim_flags(CLI::App& app, SimOptions& options) {
  add_work(app, options);
  add_rules(app, options);
  add_faults(app, options);
}

std::string sim_footer(const std::string& command) {
  std::string footer = kColumnsHelp;
  for (const char* flags : kExamples) footer += fmt::format("  {} {}\n", command, flags);
  return footer;
}

std::variant<SimOptions, int> parse_sim_options(int argc, char** argv) {
  SimOptions options;
  CLI::App app{
      "Simulates an all-reduce over the trees of a plan, and over what plans are compared with.",
      "tally-perf sim"};
  app.footer(sim_footer("tally-perf sim --plan plan.json") +
             "  tally-perf sim --plan plan.json --baseline all --json sim.json\n"
             "  control/sim/plot.py sim.json --svg sim.svg\n");
  app.get_formatter()->column_width(30);
  app.add_option("--plan", options.plan, "a plan file: its network, and its trees")
      ->required()
      ->type_name("FILE")
      ->group("What is simulated");
  add_sim_flags(app, options);
  app.add_option("--json", options.json, "write the rows, with all loads, here; - is stdout")
      ->type_name("FILE")
      ->group("What is told");
  try {
    app.parse(argc - 1, argv + 1);
  } catch (const CLI::ParseError& error) {
    return control::print_help_or_explain(app, error, "tally-perf sim") ? 0 : kWrongUsage;
  }
  return options;
}

}  // namespace tally::simulator
