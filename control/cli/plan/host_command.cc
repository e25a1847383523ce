#include "control/cli/plan/host_command.h"

#include <fmt/format.h>

#include <filesystem>

#include "control/cli/common/tables.h"
#include "control/cli/plan/host_report.h"
#include "control/cli/plan/plan_files.h"
#include "gpu_bridge/machine/host_json.h"

namespace tally::control {
namespace {

// Messages have names from the file.
PlanAnswer refuse_host(const std::string& message) {
  return {2, "", fmt::format("tallyctl: {}\n", format_value(message, Format::kText))};
}

}  // namespace

void add_explain_host(CLI::App& plan, PlanArguments& arguments) {
  auto* explain = plan.add_subcommand(
      "explain-host",
      "how the GPUs of one machine sum before Tally: each strategy, its time and its bottleneck");
  explain
      ->add_option("FILE", arguments.file,
                   "the machine, in JSON (tally-host/1), or as `lstopo --of xml` writes it")
      ->required();
  explain->footer(
      "docs/planning.md has the keys of the file. Exit status: 0 explained, 2 the file is refused\n"
      "(stderr says why) or wrong usage.");
  explain->parse_complete_callback([&arguments] { arguments.verb = PlanVerb::kExplainHost; });
}

PlanAnswer answer_explain_host(const PlanArguments& arguments, bool as_json) {
  const auto text = read_file(arguments.file, "a file of a GPU machine");
  if (!text) return refuse_host(text.error().message);
  // The file names hwloc's XML relative to its own folder.
  const auto folder = std::filesystem::path(arguments.file).parent_path();
  const auto machine = host::read_host(*text, [&](const std::string& path) {
    return read_file((folder / path).string(), "a file that `lstopo --of xml` wrote");
  });
  if (!machine) return refuse_host(fmt::format("{}: {}", arguments.file, machine.error().message));
  const host::Routes routes(*machine);
  const nlohmann::json report = host_report(routes, host::plan_host(routes));
  if (!as_json) return {0, render_host_report(report), ""};
  return {0, report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n", ""};
}

}  // namespace tally::control
