#include "control/sim/command/sim_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/system/output_file.h"
#include "base/text/sizes.h"
#include "control/cli/common/standard_output.h"
#include "control/cli/common/tables.h"
#include "control/cli/plan/plan_files.h"

namespace tally::simulator {
namespace {

using nlohmann::json;

constexpr int kNotWritten = 1;
constexpr int kUsage = 2;
constexpr std::uint64_t kBaselineChunk = 256 << 10;
constexpr std::uint64_t kBytePsChunk = 4096000;
constexpr double kMostTransfers = 1e8;  // of one simulation: some minutes, and some GiB

bool is_switch(const plan::Network& network, const std::string& name) {
  for (plan::VertexId id = 0; id < network.vertices.size(); ++id) {
    const bool has_role = network.vertices[id].role == plan::Role::kSwitch;
    if (has_role && network.name_of(id) == name) return true;
  }
  return false;
}

// A machine by its name, or by its number in the plan.
Result<plan::VertexId> machine_of(const plan::Network& network, const std::string& name,
                                  const char* flag) {
  const std::size_t machines = network.machines();
  for (plan::VertexId id = 0; id < machines; ++id) {
    if (network.name_of(id) == name) return id;
  }
  plan::VertexId id = 0;
  const char* end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data(), end, id);
  if (parsed.ec == std::errc{} && parsed.ptr == end && id < machines) return id;
  return invalid(fmt::format(
      "{} {}: {}; give a name, or a number from 0 to {}", flag, name,
      is_switch(network, name) ? "is a switch, and no machine" : "the plan has no such machine",
      machines - 1));
}

Order order_of(const std::string& name) {
  if (name == "fifo") return Order::kFifo;
  return name == "fair" ? Order::kFair : Order::kOldest;
}

Result<Scenario> scenario_of(const plan::Network& network, const SimOptions& options) {
  Scenario scenario;
  scenario.fabric = {order_of(options.order),
                     options.forwarding == "store" ? Forwarding::kStore : Forwarding::kCut,
                     options.hop_us * 1e-6};
  scenario.rules = options.rules == "nodes" ? Rules::kNodes : Rules::kIdeal;
  scenario.tiles_in_flight = options.in_flight;
  scenario.nodes.node.window_bytes = options.shard_window;
  scenario.nodes.pace = options.pace;
  scenario.straggler_seconds = options.stragglers_ms * 1e-3;
  scenario.seed = options.seed;
  for (const NamedSlow& slow : options.slow) {
    const auto machine = machine_of(network, slow.machine, "--slow");
    if (!machine) return machine.error();
    const auto is_it = [&](const SlowMachine& other) { return other.machine == *machine; };
    if (std::any_of(scenario.slow.begin(), scenario.slow.end(), is_it)) {
      return invalid(
          fmt::format("--slow {}: the machine has a factor already; give one", slow.machine));
    }
    scenario.slow.push_back({*machine, slow.factor});
  }
  for (const NamedFailure& failure : options.failures) {
    const auto machine = machine_of(network, failure.machine, "--fail");
    if (!machine) return machine.error();
    scenario.failure = Failure{*machine, failure.at, options.repair_s};
  }
  return scenario;
}

Result<std::vector<std::string>> names_of(const SimOptions& options) {
  std::vector<std::string> names;
  for (const std::string& name : options.baselines) {
    const auto is_it = [&](const Baseline& one) { return one.name == name; };
    if (name == "all") {
      for (const Baseline& one : baselines()) names.emplace_back(one.name);
    } else if (std::any_of(baselines().begin(), baselines().end(), is_it)) {
      names.push_back(name);
    } else {
      return invalid(
          fmt::format("--baseline {}: there is no such baseline; give some of {}, or all", name,
                      baseline_names()));
    }
  }
  return names;
}

Outcome check_size(const plan::Network& network, std::uint64_t bytes, std::uint64_t chunk) {
  if (chunk > kMaxChunk) {
    return invalid(fmt::format("--chunk {}: at most {}", size_text(chunk), size_text(kMaxChunk)));
  }
  const double transfers = 2.0 * static_cast<double>(network.machines()) *
                           (static_cast<double>(bytes) / static_cast<double>(chunk));
  if (transfers <= kMostTransfers) return Unit{};
  return invalid(
      fmt::format("--bytes {} in chunks of {} are about {:.0f} transfers, and a simulation "
                  "has at most {:.0f}; give a larger --chunk",
                  size_text(bytes), size_text(chunk), transfers, kMostTransfers));
}

json loads_of(const plan::Network& network, const Simulated& result) {
  json loads = json::array();
  for (const plan::Load& load : result.loads) {
    if (load.bytes == 0) continue;
    loads.push_back({{"what", plan::describe(load, network)},
                     {"kind", plan::passage_name(load.passage)},
                     {"capacity", load.capacity},
                     {"bytes", load.bytes},
                     {"busy", load.seconds() / result.seconds}});
  }
  return loads;
}

json row_of(const plan::Network& network, const std::string& work, std::uint64_t bytes,
            const Simulated& result) {
  json row = {{"work", work},
              {"bytes", bytes},
              {"seconds", result.seconds},
              {"bound", result.bound},
              {"ratio", result.ratio()},
              {"algbw", result.seconds > 0 ? static_cast<double>(bytes) / result.seconds : 0},
              {"last_ready", result.last_ready},
              {"repaired", result.repaired},
              {"events", result.events},
              {"longest_queue", result.longest_queue},
              {"tiers", json::array()},
              {"loads", loads_of(network, result)}};
  for (const Tier& tier : result.tiers) {
    row["tiers"].push_back(
        {{"name", tier.name}, {"moved", tier.moved}, {"necessary", tier.necessary}});
  }
  return row;
}

// Simulates the plan and the baselines for one size.
class Rows {
 public:
  Rows(const plan::Plan& plan, const plan::Domain& domain, const SimOptions& options,
       Scenario scenario)
      : network_(plan.network),
        domain_(domain),
        options_(options),
        scenario_(std::move(scenario)) {}

  Outcome add_plan(std::uint64_t bytes) {
    TreeSet set = trees_of_plan(domain_, bytes, options_.chunk, 0);
    if (options_.window != 0) set.window = options_.window;
    if (const auto fits = check_size(network_, bytes, set.chunk); !fits) return fits;
    Scenario scenario = scenario_;
    scenario.nodes.node.tile_bytes = options_.chunk;
    const std::size_t trees = set.trees.size();
    if (const auto added = add("plan", bytes, std::move(set), scenario); !added) return added;
    rows_.back()["trees"] = trees;
    if (domain_.certificate) {
      rows_.back()["lower_bound"] = domain_.certificate->lower_bound * static_cast<double>(bytes);
    }
    return Unit{};
  }

  Outcome add_baseline(const std::string& name, std::uint64_t bytes) {
    std::uint64_t chunk = name.starts_with("byteps") ? kBytePsChunk : kBaselineChunk;
    if (options_.chunk != 0) chunk = options_.chunk;
    if (const auto fits = check_size(network_, bytes, chunk); !fits) return fits;
    auto work = make_baseline(name, Question{network_, domain_.workers, bytes, chunk});
    if (!work) return Error{work.status(), "--baseline " + work.error().message};
    Scenario scenario = scenario_;
    scenario.rules = Rules::kIdeal;
    return add(name, bytes, std::move(*work), scenario);
  }

  json rows() const { return rows_; }

 private:
  Outcome add(const std::string& name, std::uint64_t bytes, const Work& work,
              const Scenario& scenario) {
    const auto result = simulate(network_, domain_.workers, work, scenario);
    if (!result) return Error{result.status(), name + ": " + result.error().message};
    rows_.push_back(row_of(network_, name, bytes, *result));
    return Unit{};
  }

  const plan::Network& network_;
  const plan::Domain& domain_;
  const SimOptions& options_;
  Scenario scenario_;
  json rows_ = json::array();
};

// "all" leaves out baselines that this network cannot have; one that is named is an error.
Outcome add_baselines(Rows& rows, const std::vector<std::string>& names, std::uint64_t bytes,
                      bool all, json& left_out) {
  for (const std::string& name : names) {
    const auto added = rows.add_baseline(name, bytes);
    if (!added && !all) return added;
    if (!added) left_out.push_back(added.error().message);
  }
  return Unit{};
}

std::string of_necessary(const json& row, std::string_view tier) {
  for (const json& one : row.at("tiers")) {
    const double necessary = control::number_at(one, "necessary");
    if (control::text_at(one, "name") == tier && necessary > 0) {
      return fmt::format("{:.3f}", control::number_at(one, "moved") / necessary);
    }
  }
  return "-";
}

std::string busiest_of(const json& row) {
  const json* busiest = nullptr;
  for (const json& load : row.at("loads")) {
    if (busiest == nullptr ||
        control::number_at(load, "busy") > control::number_at(*busiest, "busy")) {
      busiest = &load;
    }
  }
  if (busiest == nullptr) return "-";
  return fmt::format("{} {:.0f}%", control::text_at(*busiest, "what"),
                     100 * control::number_at(*busiest, "busy"));
}

int fail(const Error& error, int status) {
  std::cerr << "tally-perf sim: " << error.message << '\n';
  return status;
}

}  // namespace

Result<json> simulate_all(const plan::Plan& plan, const SimOptions& options) {
  const auto domain = control::find_domain(plan, options.domain);
  if (!domain) return domain.error();
  if ((*domain)->classes.back().rs_ag && !options.plan_left_out) {
    return invalid(
        "the plan is for reduce-scatters and all-gathers (objective \"rs-ag\"), and "
        "all-reduces are simulated: take a plan for these, or --no-plan");
  }
  auto scenario = scenario_of(plan.network, options);
  if (!scenario) return scenario.error();
  const auto names = names_of(options);
  if (!names) return names.error();
  if (options.plan_left_out && names->empty()) {
    return invalid("--no-plan without --baseline leaves nothing to simulate");
  }
  const bool all = std::find(options.baselines.begin(), options.baselines.end(), "all") !=
                   options.baselines.end();
  Rows rows(plan, **domain, options, std::move(*scenario));
  json left_out = json::array();
  for (const std::uint64_t bytes : options.bytes) {
    if (!options.plan_left_out) {
      if (const auto added = rows.add_plan(bytes); !added) return added.error();
    }
    if (const auto added = add_baselines(rows, *names, bytes, all, left_out); !added) {
      return added.error();
    }
  }
  return json{{"workers", (*domain)->workers.size()},
              {"machines", plan.network.machines()},
              {"rules", options.rules},
              {"order", options.order},
              {"forwarding", options.forwarding},
              {"seed", options.seed},
              {"rows", rows.rows()},
              {"left_out", std::move(left_out)}};
}

std::string render(const json& report) {
  json rows = json::array();
  for (const json& row : report.at("rows")) {
    rows.push_back({{"work", control::text_at(row, "work")},
                    {"bytes", short_size_text(row.at("bytes").get<std::uint64_t>())},
                    {"time", fmt::format("{:.3f}{}", 1e3 * control::number_at(row, "seconds"),
                                         row.at("repaired").get<bool>() ? "*" : "")},
                    {"bound", fmt::format("{:.3f}", 1e3 * control::number_at(row, "bound"))},
                    {"ratio", fmt::format("{:.3f}", control::number_at(row, "ratio"))},
                    {"algbw", fmt::format("{:.3f}", 1e-9 * control::number_at(row, "algbw"))},
                    {"machines", of_necessary(row, "machines")},
                    {"racks", of_necessary(row, "racks")},
                    {"busiest", busiest_of(row)}});
  }
  static constexpr control::Column kColumns[] = {
      {"work", "work", control::Format::kText},         {"bytes", "bytes", control::Format::kText},
      {"time", "time", control::Format::kText},         {"bound", "bound", control::Format::kText},
      {"ratio", "ratio", control::Format::kText},       {"algbw", "algbw", control::Format::kText},
      {"machines", "machines", control::Format::kText}, {"racks", "racks", control::Format::kText},
      {"busiest", "busiest", control::Format::kText}};
  return control::render_table(rows, kColumns);
}

Result<json> simulate_file(const SimOptions& options) {
  // Trees may be higher here than nodes serve them.
  const auto plan = control::read_plan_file(options.plan, UINT32_MAX);
  if (!plan) return plan.error();
  return simulate_all(*plan, options);
}

int run_sim(int argc, char** argv) {
  const auto parsed = parse_sim_options(argc, argv);
  if (const int* status = std::get_if<int>(&parsed)) return *status;
  const auto& options = std::get<SimOptions>(parsed);
  const auto separate = control::check_output("--json", options.json, {{"--plan", options.plan}});
  if (!separate) return fail(separate.error(), kUsage);
  const auto report = simulate_file(options);
  if (!report) return fail(report.error(), kUsage);
  for (const json& why : report->at("left_out")) {
    std::cerr << "tally-perf sim: left out: " << why.get<std::string>() << '\n';
  }
  const std::string text = report->dump(2) + "\n";
  const bool only_json = options.json == "-";
  const bool printed = control::print_out(only_json ? text : render(*report), "tally-perf sim");
  const int status = printed ? 0 : kNotWritten;
  if (only_json || options.json.empty()) return status;
  const auto written = write_file(options.json, text);
  if (!written) return fail({written.status(), "--json " + written.error().message}, kNotWritten);
  return status;
}

}  // namespace tally::simulator
