#include "control/cli/probe/command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text/speed.h"
#include "control/cli/common/flags.h"
#include "control/cli/common/standard_output.h"
#include "control/cli/common/tables.h"
#include "control/cli/plan/plan_files.h"
#include "control/cli/probe/findings.h"
#include "control/cli/probe/survey.h"
#include "control/config/config.h"
#include "net/rpc/rpc_channel.h"

namespace tally::control::probe {
namespace {

using nlohmann::json;

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr std::size_t kRows = 20;  // of the table of pairs

constexpr std::array kMachineColumns = {
    Column{"name", "node", Format::kText},
    Column{"role", "role", Format::kText},
    Column{"interface", "NIC", Format::kText},
    Column{"nic", "declared"},
    Column{"in", "in"},
    Column{"out", "out"},
    Column{"sum", "sums"},
};

constexpr std::array kPairColumns = {
    Column{"from", "from", Format::kText},
    Column{"to", "to", Format::kText},
    Column{"speed", "speed"},
};

json shown(double speed) {
  return speed > 0 ? json(speed_text(speed)) : json();
}

std::string render(const Survey& survey) {
  json machines = json::array(), pairs = json::array();
  for (const plan::Machine& one : survey.file.machines) {
    machines.push_back({{"name", one.name},
                        {"role", plan::role_name(one.role)},
                        {"interface", one.interface.empty() ? json() : json(one.interface)},
                        {"nic", shown(one.nic)},
                        {"in", shown(one.in)},
                        {"out", shown(one.out)},
                        {"sum", shown(one.sum)}});
  }
  auto slowest = survey.file.pairs;
  std::stable_sort(slowest.begin(), slowest.end(),
                   [](const auto& a, const auto& b) { return a.speed < b.speed; });
  for (std::size_t i = 0; i < std::min(slowest.size(), kRows); ++i) {
    pairs.push_back({{"from", survey.file.machines[slowest[i].from].name},
                     {"to", survey.file.machines[slowest[i].to].name},
                     {"speed", shown(slowest[i].speed)}});
  }
  std::string text = render_table(machines, kMachineColumns);
  if (!pairs.empty()) text += "\npairs, the slowest first\n" + render_table(pairs, kPairColumns);
  if (slowest.size() > kRows) {
    text += fmt::format("and {} more: --json or --out\n", slowest.size() - kRows);
  }
  const auto racks = describe_racks(survey.file);
  if (!racks.empty()) text += "\nracks\n";
  for (const std::string& rack : racks) text += rack + "\n";
  return text;
}

// Prints what the user must know before using the figures.
void print_notes(const Survey& survey) {
  const auto narrow = narrow_pairs(survey.file);
  for (std::size_t i = 0; i < std::min(narrow.size(), kRows); ++i) {
    fmt::print(stderr, "note: {}\n", narrow[i]);
  }
  if (!narrow.empty()) {
    fmt::print(stderr,
               "note: {} pair{} narrower than {} NICs: no full bisection, so plans of stars may be "
               "slower than they say (docs/planning.md)\n",
               narrow.size(), narrow.size() == 1 ? " is" : "s are",
               narrow.size() == 1 ? "its" : "their");
  }
  for (const std::string& note : survey.notes) fmt::print(stderr, "note: {}\n", note);
  for (const std::string& error : survey.errors) fmt::print(stderr, "tallyctl: {}\n", error);
}

int fail(const std::string& why, int status) {
  fmt::print(stderr, "tallyctl: {}\n", why);
  return status;
}

}  // namespace

CLI::App* add_probe(CLI::App& app, ProbeArguments& arguments) {
  auto* probe = app.add_subcommand(
      "probe", "measures the machines of a cluster and the network between them, by their nodes");
  auto* to =
      probe->add_option("--to", arguments.to,
                        "members by name or host, or addresses: measure the node at --address with "
                        "these alone; may be repeated. Left out: all members with each other");
  to->type_name("HOST");
  probe->add_option("--seconds", arguments.seconds, "that each measurement counts")
      ->check(number_in(0.05, 10.0))
      ->capture_default_str();
  probe->add_flag("--no-pairs", arguments.no_pairs,
                  "each node with all others at once alone: with many nodes pairs take long");
  probe
      ->add_flag("--racks", arguments.racks,
                 "also find the racks, whose machines share a link: some 2 s for each of 16 to 40 "
                 "rounds, and for each rack 2 more")
      ->excludes(to);
  probe
      ->add_option("--config", arguments.config,
                   "a configuration of tallyd whose secret_file has the secret, instead of --token")
      ->type_name("FILE");
  probe->add_option("--out", arguments.out, "write what was measured, for plan make --machines")
      ->type_name("FILE");
  probe->footer(
      "It fills the network, about two seconds for each measurement: not beside a training "
      "whose\n"
      "time counts. Exit status: 0; 1 something could not be measured (stderr says who and why); "
      "2\n"
      "wrong usage. docs/operate.md says how to read it, docs/planning.md has the file.");
  return probe;
}

int run_probe(const ProbeArguments& arguments, const ProbeRun& run) {
  const auto separate = check_output("--out", arguments.out, {{"--config", arguments.config}});
  if (!separate) return fail(separate.error().message, kUsage);
  std::optional<OutputFile> out;
  if (!arguments.out.empty()) {
    auto created = create_out(arguments.out);  // before a minute of measuring is lost
    if (!created) return fail(created.error().message, kUsage);
    out.emplace(std::move(created).value());
  }
  std::string token;
  if (!arguments.config.empty()) {
    const auto config = load_config(arguments.config, {});
    if (!config) return fail(config.error().message, kUsage);
    if (!config->security.secret_file.empty()) token = "@" + config->security.secret_file;
  }
  const auto credentials = net::tls::Credentials::of_user(token);
  if (!credentials) return fail(credentials.error().message, kUsage);
  const auto first = rpc::RpcChannel::connect_first(run.address, *credentials);
  if (!first) return fail(first.error().message, kFailed);
  SurveyOptions options{.address = first->address(),
                        .to = arguments.to,
                        .credentials = *credentials,
                        .seconds = arguments.seconds,
                        .pairs = !arguments.no_pairs,
                        .racks = arguments.racks,
                        .timeout = static_cast<Nanos>(run.timeout * kSecond)};
  const bool shows_progress = ::isatty(STDERR_FILENO) != 0;
  const auto measured = survey(options, [&](const std::string& what) {
    if (shows_progress) fmt::print(stderr, "measuring {}\n", what);
  });
  if (!measured) {
    return fail(measured.error().message,
                measured.status() == Status::kInvalidArgument ? kUsage : kFailed);
  }
  const std::string file = plan::write_machines(measured->file);
  const bool printed = print_out(run.as_json ? file : render(*measured), "tallyctl");
  print_notes(*measured);
  if (out) {
    out->stream() << file;
    if (const auto written = out->commit(); !written) return fail(written.error().message, kFailed);
  }
  return printed && measured->errors.empty() ? 0 : kFailed;
}

}  // namespace tally::control::probe
