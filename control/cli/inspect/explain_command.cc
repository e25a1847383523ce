#include "control/cli/inspect/explain_command.h"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text/speed.h"
#include "control/cli/common/flags.h"
#include "control/cli/inspect/answers.h"
#include "control/cli/inspect/explain_report.h"
#include "control/cli/plan/network_file.h"
#include "control/cli/plan/plan_files.h"
#include "control/plan/advice/on_network.h"

namespace tally::control {
namespace {

// The plan of the file, on the other network if one is named.
Result<plan::Plan> plan_to_explain(const ExplainArguments& arguments) {
  auto plan = read_plan_file(arguments.plan, UINT32_MAX);
  if (!plan || arguments.network.empty()) return plan;
  const auto network = read_network_file(arguments.network);
  if (!network) return Error{network.status(), "--network " + network.error().message};
  auto moved = plan::on_network(*plan, *network);
  if (moved) return moved;
  return Error{moved.status(), fmt::format("{} on --network {}: {}", arguments.plan,
                                           arguments.network, moved.error().message)};
}

Result<double> speed_option(const char* option, const std::string& text) {
  const auto speed = parse_speed(text);
  if (speed && *speed >= plan::kMinSpeed && *speed <= plan::kMaxSpeed) return speed;
  return invalid(speed ? fmt::format("{} {}: must be from {} to {:g} bytes per second", option,
                                     text, plan::kMinSpeed, plan::kMaxSpeed)
                       : fmt::format("{} {}", option, speed.error().message));
}

Result<plan::AdviceOptions> advice_options(const ExplainArguments& arguments) {
  plan::AdviceOptions options;
  options.most_factor = arguments.faster;
  if (arguments.helper.empty()) return options;
  plan::Vertex helper{.role = plan::Role::kHelper};
  const auto speed = speed_option("--helper", arguments.helper);
  if (!speed) return speed.error();
  helper.in = helper.out = *speed;
  if (!arguments.helper_sum.empty()) {
    const auto sum = speed_option("--helper-sum", arguments.helper_sum);
    if (!sum) return sum.error();
    helper.sum = *sum;
  }
  options.helper = helper;
  return options;
}

}  // namespace

void add_explain(CLI::App& plan, InspectArguments& arguments) {
  ExplainArguments& own = arguments.explain;
  auto* explain = plan.add_subcommand(
      "explain",
      "what limits a plan, where its bound comes from, and what would make it faster: one more "
      "helper, and faster links, NICs or sums");
  explain->add_option("PLAN", own.plan, "the plan, a file")->required();
  explain
      ->add_option("--network", own.network,
                   "explain it on the machines and links of this file, and not on its own")
      ->type_name("FILE");
  add_domain_option(*explain, own.domain);
  add_bytes_option(*explain, own.bytes, "explain the trees of an operation of this size");
  add_hop_option(*explain, own.hop_us);
  auto* helper = explain->add_option(
      "--helper", own.helper,
      "NIC of the one more helper; left out: as the fastest helper, or else the fastest worker");
  helper->type_name("SPEED");
  explain->add_option("--helper-sum", own.helper_sum, "what it sums, bytes of input per second")
      ->type_name("SPEED")
      ->needs(helper);
  auto* faster = explain->add_option("--faster", own.faster,
                                     "how many times as fast links, NICs and sums may become");
  faster->check(number_in(1.01, 1000))->capture_default_str();
  explain
      ->add_flag("--no-changes", own.no_changes,
                 "only what limits; nothing is planned anew, which takes long for large "
                 "networks")
      ->excludes(helper)
      ->excludes(faster);
  add_all_flag(*explain, own.all);
  explain->footer(
      "docs/planning.md explains the figures. Exit status: 0 explained, 2 a file or an option is\n"
      "refused (stderr says why).");
  explain->parse_complete_callback([&arguments] { arguments.verb = InspectVerb::kExplain; });
}

PlanAnswer answer_explain(const ExplainArguments& arguments, bool as_json) {
  constexpr int kRefused = 2;
  const auto bytes = operation_bytes(arguments.bytes);
  if (!bytes) return refusal(kRefused, bytes.error().message);
  auto options = advice_options(arguments);
  if (!options) return refusal(kRefused, options.error().message);
  const auto plan = plan_to_explain(arguments);
  if (!plan) return refusal(kRefused, plan.error().message);
  const auto domain = find_domain(*plan, arguments.domain);
  if (!domain) {
    return refusal(kRefused, fmt::format("{}: {}", arguments.plan, domain.error().message));
  }
  nlohmann::json report =
      explain_report(*plan, **domain, {.bytes = *bytes, .hop_seconds = arguments.hop_us * 1e-6});
  if (!arguments.no_changes) {
    const bool is_rs_ag = (*domain)->classes.back().rs_ag;
    if ((*domain)->classes.back().has_other_way())
      options->packing.way_down = plan::WayDown::kAnyWay;
    add_advice(report, plan->network,
               is_rs_ag ? Result<plan::Advice>(
                              invalid("it is tried for all-reduces only, and this plan is "
                                      "for reduce-scatters and all-gathers"))
                        : plan::advise(plan->network, (*domain)->workers, *options));
  }
  return reported(report, render_explanation(report, most_rows(arguments.all)), as_json);
}

}  // namespace tally::control
