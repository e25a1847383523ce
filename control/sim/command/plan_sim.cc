#include "control/sim/command/plan_sim.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "control/cli/common/tables.h"
#include "control/sim/command/sim_command.h"

namespace tally::simulator {
namespace {

using nlohmann::json;

// Messages have names from the file.
std::string line_of(const std::string& message) {
  return fmt::format("tallyctl: {}\n", control::format_value(message, control::Format::kText));
}

}  // namespace

void add_plan_sim(CLI::App& plan, PlanSimArguments& arguments) {
  auto* sim = plan.add_subcommand(
      "sim", "simulates an operation over the trees of a plan, without a node and a network");
  sim->add_option("PLAN", arguments.options.plan, "the plan, a file")->required();
  add_sim_flags(*sim, arguments.options);
  sim->footer(sim_footer("tallyctl plan sim plan.json"));
  sim->parse_complete_callback([&arguments] { arguments.is_chosen = true; });
}

control::PlanAnswer answer_plan_sim(const SimOptions& options, bool as_json) {
  constexpr int kRefused = 2;
  const auto report = simulate_file(options);
  if (!report) return {kRefused, "", line_of(report.error().message)};
  control::PlanAnswer answer;
  for (const json& why : report->at("left_out")) {
    answer.err += line_of("left out: " + why.get<std::string>());
  }
  answer.out = as_json ? report->dump(2, ' ', false, json::error_handler_t::replace) + "\n"
                       : render(*report);
  return answer;
}

}  // namespace tally::simulator
