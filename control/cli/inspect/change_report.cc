#include "control/cli/inspect/change_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/speed.h"
#include "control/cli/common/tables.h"
#include "control/cli/plan/figures.h"

namespace tally::control {
namespace {

using nlohmann::json;

// Plans of `plan make` may take up to 2% more than the least time, so that they have few levels.
constexpr double kWorthPlanningAnew = 0.03;

constexpr std::array kChangeColumns = {
    Column{"gain", "less time", Format::kPercent}, Column{"ns", "ns per byte"},
    Column{"text", "change", Format::kText},       Column{"from_text", "from", Format::kText},
    Column{"to_text", "to", Format::kText},
};

// The speeds of what an upgrade makes faster.
std::vector<double> speeds_of(const plan::Network& network, const plan::Upgrade& upgrade) {
  std::vector<double> speeds;
  for (const std::uint32_t link : upgrade.links) speeds.push_back(network.links[link].capacity);
  for (const plan::VertexId id : upgrade.machines) {
    const plan::Vertex& machine = network.vertices[id];
    if (upgrade.kind == plan::UpgradeKind::kSums) {
      speeds.push_back(machine.sum.value_or(0));
    } else {
      speeds.push_back(machine.in);
      speeds.push_back(machine.out);
    }
  }
  return speeds;
}

// The names of what it makes faster: "rack1 - core", or the machine.
json places_of(const plan::Network& network, const plan::Upgrade& upgrade) {
  std::vector<std::string> names;
  for (const std::uint32_t index : upgrade.links) {
    const auto [one, other] = std::minmax(network.links[index].from, network.links[index].to);
    names.push_back(fmt::format("{} - {}", network.name_of(one), network.name_of(other)));
    if (names.size() > 1 && names[names.size() - 2] == names.back()) names.pop_back();
  }
  for (const plan::VertexId id : upgrade.machines) names.push_back(network.name_of(id));
  return names;
}

json upgrade_report(const plan::Network& network, const plan::UpgradeAdvice& advice, double now) {
  static constexpr std::array<std::string_view, 3> kKinds = {"links", "nics", "sums"};
  const plan::Upgrade& upgrade = advice.upgrade;
  const std::vector<double> speeds = speeds_of(network, upgrade);
  const auto [least, most] = std::minmax_element(speeds.begin(), speeds.end());
  return {{"change", kKinds[static_cast<std::size_t>(upgrade.kind)]},
          {"places", places_of(network, upgrade)},
          {"alike", upgrade.alike},
          {"factor", advice.factor},
          {"from", {*least, *most}},
          {"to", {*least * advice.factor, *most * advice.factor}},
          {"tau", advice.tau},
          {"gain", 1 - advice.tau / now}};
}

json helper_report(const plan::Network& network, const plan::HelperAdvice& advice,
                   const plan::Vertex& helper, double now) {
  return {{"change", "helper"},
          {"places", json::array({network.name_of(advice.place.at)})},
          {"alike", advice.place.alike},
          {"to", {std::min(helper.in, helper.out), std::max(helper.in, helper.out)}},
          {"tau", advice.tau},
          {"gain", 1 - advice.tau / now}};
}

std::string speeds_text(const json& speeds) {
  const double least = speeds[0], most = speeds[1];
  return least == most ? speed_text(least)
                       : fmt::format("{} to {}", speed_text(least), speed_text(most));
}

// "2 links r1 - core and r2 - core", "NIC of m0 (or of one of the 8 like it)".
std::string change_text(const json& change) {
  const std::string kind = text_at(change, "change");
  const std::string first = format_value(change["places"][0], Format::kText);
  const std::size_t count = change["places"].size(), alike = change["alike"];
  if (kind == "helper") {
    const std::string others =
        alike > 1 ? fmt::format(", or at one of the {} switches like it", alike) : "";
    return fmt::format("one more helper at {}{}", first, others);
  }
  const std::string_view what = kind == "links" ? "link" : kind == "nics" ? "NIC of" : "sums of";
  if (count == 1) {
    const std::string others = alike > 1 ? fmt::format(", or one of the {} like it", alike) : "";
    return fmt::format("{} {}{}", what, first, others);
  }
  const std::string_view of_all = kind == "links" ? "links" : kind == "nics" ? "NICs" : "sums";
  const std::string second = format_value(change["places"][1], Format::kText);
  return count == 2 ? fmt::format("both {}: {}, {}", of_all, first, second)
                    : fmt::format("all {} {}: {}, {}, ...", count, of_all, first, second);
}

std::string beside_text(const json& changes) {
  std::string text;
  if (const std::size_t count = changes["of_no_use"]; count > 0) {
    text += fmt::format("{} of other links, NICs or sums: less than {:.0f}% each\n",
                        count_of(count, "upgrade"), 100 * number_at(changes, "least_gain"));
  }
  if (const std::size_t count = changes["not_tried"]; count > 0) {
    text += fmt::format("{} more {} not tried\n", count_of(count, "change"),
                        count == 1 ? "was" : "were");
  }
  return text;
}

}  // namespace

json changes_report(const plan::Network& network, const plan::Advice& advice) {
  const double now = advice.now.tau;
  json list = json::array();
  for (const plan::HelperAdvice& one : advice.helpers) {
    list.push_back(helper_report(network, one, advice.helper, now));
  }
  for (const plan::UpgradeAdvice& one : advice.upgrades) {
    list.push_back(upgrade_report(network, one, now));
  }
  std::stable_sort(list.begin(), list.end(), [](const json& a, const json& b) {
    return number_at(a, "tau") < number_at(b, "tau");
  });
  return {{"tau", now},
          {"lower_bound", advice.now.lower_bound},
          {"list", std::move(list)},
          {"least_gain", plan::AdviceOptions{}.least_gain},
          {"of_no_use", advice.of_no_use},
          {"not_tried", advice.not_tried}};
}

std::string render_changes(const json& changes, std::optional<double> tau, std::size_t rows) {
  if (changes.contains("error")) {
    return fmt::format("\nwhat would help is not known: {}\n",
                       format_value(changes["error"], Format::kText));
  }
  const double now = number_at(changes, "tau");
  std::string text = fmt::format("\nplanned anew, this network takes {}\n", tau_text(now));
  if (tau && now < *tau * (1 - kWorthPlanningAnew)) {
    text += fmt::format("that is {:.1f}% less time than this plan: make a new one\n",
                        100 * (1 - now / *tau));
  }
  json list = changes["list"];
  if (!list.empty()) text += "planned anew with one change, it takes\n";
  for (json& change : list) {
    change["text"] = change_text(change);
    // Rounded weights may cost more time than the change saves.
    change["gain"] = std::max(0.0, number_at(change, "gain"));
    change["ns"] = fmt::format("{:.4g}", number_at(change, "tau") * 1e9);
    if (change.contains("from")) change["from_text"] = speeds_text(change["from"]);
    change["to_text"] = speeds_text(change["to"]);
  }
  if (!list.empty()) text += render_heaviest(std::move(list), "gain", kChangeColumns, rows);
  return text + beside_text(changes);
}

}  // namespace tally::control
