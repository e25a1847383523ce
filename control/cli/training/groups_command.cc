#include "control/cli/training/groups_command.h"

#include <fmt/format.h>

#include <cmath>

#include "control/cli/common/tables.h"
#include "control/cli/plan/plan_files.h"
#include "control/cli/training/section_plans.h"
#include "control/plan/json/plan_json.h"

namespace tally::control {
namespace {

using nlohmann::json;

constexpr Column kGroupColumns[] = {{"group", "group", Format::kText},
                                    {"names", "workers", Format::kText},
                                    {"local_steps", "local steps"},
                                    {"period_ms", "period ms", Format::kText},
                                    {"rate_text", "exchanges/s", Format::kText},
                                    {"staleness_text", "staleness", Format::kText},
                                    {"learning_rate", "learning rate x", Format::kWhole}};

// Messages have names from files.
PlanAnswer refuse_groups(int status, const std::string& message) {
  return {status, "", fmt::format("tallyctl: {}\n", format_value(message, Format::kText))};
}

// A group that never exchanges has no finite staleness: null.
json finite(double value) {
  return std::isfinite(value) ? json(value) : json();
}

json groups_report(const plan::groups::Problem& problem, const plan::groups::GroupPlan& plan,
                   const std::string& job_prefix) {
  json report = {{"throughput", plan.throughput},
                 {"server_load", plan.server_load},
                 {"synchronous", plan.sync_throughput},
                 {"synchronous_idle", plan.sync_idle},
                 {"parameter_server", plan.parameter_server_throughput},
                 {"least_speedup", plan.least_speedup()},
                 {"most_speedup", plan.most_speedup()},
                 {"mean_staleness", plan.groups.size() - 1},
                 {"groups", json::array()}};
  for (const plan::groups::Group& group : plan.groups) {
    json workers = json::array();
    for (const std::size_t worker : group.workers) workers.push_back(problem.workers[worker].name);
    report["groups"].push_back({{"group", group_job(job_prefix, report["groups"].size())},
                                {"workers", workers},
                                {"local_steps", group.local_steps},
                                {"period", group.period},
                                {"rate", group.rate},
                                {"staleness", finite(group.staleness)},
                                {"learning_rate", group.learning_rate}});
  }
  return report;
}

std::string render_groups_report(const json& report) {
  json rows = report["groups"];
  for (json& row : rows) {
    std::string names;
    for (const json& worker : row["workers"]) {
      names += fmt::format("{}{}", names.empty() ? "" : " ", worker.get<std::string>());
    }
    row["names"] = names;
    row["period_ms"] = fmt::format("{:.4g}", row["period"].get<double>() * 1e3);
    row["rate_text"] = fmt::format("{:.4g}", row["rate"].get<double>());
    row["staleness_text"] = row["staleness"].is_null()
                                ? "never exchanges"
                                : fmt::format("{:.3g}", row["staleness"].get<double>());
  }
  std::string text = render_table(rows, kGroupColumns);
  text +=
      fmt::format("{:.4g} samples/s; the server is busy for {:.0f}% of the time\n",
                  report["throughput"].get<double>(), 100 * report["server_load"].get<double>());
  text += fmt::format(
      "synchronous training: {:.4g} samples/s, its workers wait for {:.0f}% of the time\n",
      report["synchronous"].get<double>(), 100 * report["synchronous_idle"].get<double>());
  text += report["parameter_server"] == 0
              ? "each worker a group of its own: the staleness forbids it\n"
              : fmt::format("each worker a group of its own: {:.4g} samples/s\n",
                            report["parameter_server"].get<double>());
  return text + fmt::format(
                    "time to the same loss: {:.2f} to {:.2f} times as fast as synchronous, by what "
                    "staleness costs\n",
                    report["least_speedup"].get<double>(), report["most_speedup"].get<double>());
}

}  // namespace

void add_groups(CLI::App& plan, TrainingArguments& arguments) {
  GroupsArguments& own = arguments.groups;
  auto* command = plan.add_subcommand(
      "groups",
      "divides workers of unequal speed into groups that train asynchronously from each other");
  command
      ->add_option("--steps", own.steps,
                   "the workers' times of a step, and the speeds of NICs and of the parameter "
                   "server, in JSON")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--max-staleness", own.staleness,
                   "most exchanges of other groups between two of a group, on average; 0: train "
                   "synchronously")
      ->check(CLI::Range(0u, plan::groups::kMaxStaleness))
      ->capture_default_str();
  command
      ->add_option("--max-local-steps", own.local_steps,
                   "most steps between two exchanges, where the server is too slow")
      ->check(CLI::Range(1u, plan::groups::kMaxLocalSteps))
      ->capture_default_str();
  command->add_option("--out", own.out, "writes a plan with a domain, and so a job, for each group")
      ->type_name("FILE");
  add_file_options(*command, own.file);
  command->footer(
      "docs/pipelines.md has the keys of the file and the model. Exit status: 0 planned, 1 the "
      "plan "
      "could\nnot be written, 2 a file or an option is refused (stderr says why).");
  command->parse_complete_callback([&arguments] { arguments.verb = TrainingVerb::kGroups; });
}

PlanAnswer answer_groups(const GroupsArguments& arguments, bool as_json) {
  const auto separate = check_output("--out", arguments.out, {{"--steps", arguments.steps}});
  if (!separate) return refuse_groups(2, separate.error().message);
  const auto text = read_file(arguments.steps, "a file of the workers' steps");
  if (!text) return refuse_groups(2, text.error().message);
  const auto file = plan::read_steps(*text);
  if (!file) return refuse_groups(2, fmt::format("{}: {}", arguments.steps, file.error().message));
  const plan::groups::Limits limits{.staleness = arguments.staleness,
                                    .local_steps = arguments.local_steps};
  const auto planned = plan::groups::plan_groups(file->problem, limits);
  if (!planned) return refuse_groups(2, fmt::format("plan groups: {}", planned.error().message));
  if (!arguments.out.empty()) {
    const auto made = groups_plan(*file, *planned, limits, arguments.file);
    if (!made) return refuse_groups(2, fmt::format("plan groups: {}", made.error().message));
    if (const auto written = write_out(arguments.out, plan::write_plan(*made)); !written) {
      return refuse_groups(kFailed, written.error().message);
    }
  }
  const json report = groups_report(file->problem, *planned, arguments.file.job_prefix);
  if (!as_json) return {0, render_groups_report(report), ""};
  return {0, report.dump(2, ' ', false, json::error_handler_t::replace) + "\n", ""};
}

}  // namespace tally::control
