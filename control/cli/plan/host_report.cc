#include "control/cli/plan/host_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text/speed.h"
#include "control/cli/common/tables.h"

namespace tally::control {
namespace {

using host::Kind;
using nlohmann::json;

constexpr double kGigabyte = 1e9;

constexpr Column kStrategyColumns[] = {{"name", "strategy", Format::kText},
                                       {"time", "ms/GB", Format::kText},
                                       {"copies", "copies", Format::kNumber},
                                       {"binds", "bottleneck", Format::kText}};
constexpr Column kShareColumns[] = {{"gpu", "GPU", Format::kText},
                                    {"share", "share", Format::kPercent},
                                    {"memory", "host memory", Format::kText},
                                    {"nic", "NIC", Format::kText}};
constexpr Column kHostLoadColumns[] = {{"what", "load", Format::kText},
                                       {"speed", "speed", Format::kText},
                                       {"bytes", "bytes/byte", Format::kText},
                                       {"busy", "busy", Format::kPercent}};

std::string plain(const json& value) {
  return format_value(value, Format::kText);
}

json strategy_report(const host::Routes& routes, const host::Strategy& strategy) {
  const host::Cost& cost = strategy.cost;
  json groups = json::array();
  for (const host::Group& group : strategy.groups) {
    json ring = json::array(), shares = json::array();
    for (const auto gpu : group.ring) ring.push_back(routes.host().vertices[gpu].name);
    for (const host::Share& share : group.shares) {
      shares.push_back({{"gpu", routes.host().vertices[share.gpu].name},
                        {"memory", routes.host().vertices[share.memory].name},
                        {"nic", routes.host().vertices[share.nic].name},
                        {"share", share.weight}});
    }
    groups.push_back({{"ring", ring},
                      {"both_ways", group.both_ways},
                      {"even", host::is_even(group)},
                      {"shares", shares}});
  }
  return {{"name", strategy.name.empty() ? "other" : strategy.name},
          {"description", host::describe(routes.host(), strategy.groups)},
          {"seconds_per_gb", cost.tau * kGigabyte},
          {"copies", cost.copies},
          {"binds", routes.name(cost.binds)},
          {"groups", groups}};
}

json load_report(const host::Routes& routes, const host::Cost& cost) {
  json loads = json::array();
  for (host::ResourceId i = 0; i < cost.loads.size(); ++i) {
    if (cost.loads[i] <= host::kEqual) continue;
    const double speed = routes.resources()[i].speed;
    loads.push_back({{"what", routes.name(i)},
                     {"speed", speed},
                     {"bytes", cost.loads[i]},
                     {"busy", cost.loads[i] / speed / cost.tau}});
  }
  std::stable_sort(loads.begin(), loads.end(), [](const json& a, const json& b) {
    return a["busy"].get<double>() > b["busy"].get<double>() + host::kEqual;
  });
  return loads;
}

json links_report(const host::Host& machine) {
  constexpr std::string_view kBuses[] = {"pcie", "sockets", "nvlink", "port"};
  json links = json::array();
  for (const host::Link& link : machine.links) {
    links.push_back({{"from", machine.vertices[link.from].name},
                     {"to", machine.vertices[link.to].name},
                     {"kind", kBuses[static_cast<std::size_t>(link.bus)]},
                     {"speed", link.speed}});
  }
  return links;
}

json vertices_report(const host::Host& machine) {
  json vertices = json::array();
  for (const host::Vertex& vertex : machine.vertices) {
    if (vertex.kind == Kind::kNetwork) continue;
    json one = {{"name", vertex.name}, {"kind", host::kind_name(vertex.kind)}};
    if (vertex.under != host::kNone) one["under"] = machine.vertices[vertex.under].name;
    if (vertex.sum > 0) one["sum"] = vertex.sum;
    if (vertex.peer > 0) one["peer"] = vertex.peer;
    vertices.push_back(std::move(one));
  }
  return vertices;
}

// Why the chosen strategy is the one.
std::string reason_of(const host::HostPlan& plan) {
  const host::Cost& chosen = plan.chosen.cost;
  std::size_t equal = 0;
  const host::Strategy* next = nullptr;
  for (const host::Strategy& other : plan.named) {
    if (!plan.chosen.name.empty() && other.name == plan.chosen.name) continue;
    if (other.cost.tau <= chosen.tau * (1 + host::kEqual)) {
      ++equal;
    } else if (next == nullptr || other.cost.tau < next->cost.tau) {
      next = &other;
    }
  }
  std::string text = fmt::format(
      "no other of {} {} takes less time", plan.divisions,
      plan.every_division ? "ways to divide the GPUs" : "usual ways to divide the GPUs");
  if (equal > 0) text += ", and of those that take the same it has the fewest copies";
  if (next != nullptr) {
    text +=
        fmt::format("; \"{}\" takes {:.2f} times as long", next->name, next->cost.tau / chosen.tau);
  }
  return text;
}

std::string speeds_text(double there, double back, std::string_view there_name,
                        std::string_view back_name) {
  if (there == back) return speed_text(there);
  return fmt::format("{} {}, {} {}", there_name, speed_text(there), back_name, speed_text(back));
}

double speed_between(const json& report, const json& from, const json& to) {
  for (const json& link : report["links"]) {
    if (link["from"] == from && link["to"] == to && link["kind"] == "pcie") return link["speed"];
  }
  return 0;
}

// The vertex and everything below it, a line each.
std::string tree_text(const json& report, const json& vertex, std::size_t depth) {
  const json& name = vertex["name"];
  std::string text(2 * depth, ' ');
  text += fmt::format("{} {}", plain(vertex["kind"]), plain(name));
  if (vertex.contains("under")) {
    text += ", " + speeds_text(speed_between(report, name, vertex["under"]),
                               speed_between(report, vertex["under"], name), "up", "down");
  }
  if (vertex.contains("sum")) text += fmt::format(", sums {}", speed_text(vertex["sum"]));
  if (vertex.contains("peer")) {
    text += fmt::format(", passes {} from GPU to GPU", speed_text(vertex["peer"]));
  }
  text += "\n";
  for (const json& other : report["vertices"]) {
    if (other.contains("under") && other["under"] == name)
      text += tree_text(report, other, depth + 1);
  }
  return text;
}

// Links that are no part of the tree, one line for both directions.
std::string links_text(const json& report) {
  std::string text;
  for (const json& link : report["links"]) {
    if (link["kind"] == "pcie") continue;
    double back = 0;
    bool is_second = false;
    for (const json& other : report["links"]) {
      if (&other == &link) is_second = back > 0;
      if (other["from"] == link["to"] && other["to"] == link["from"] &&
          other["kind"] == link["kind"]) {
        back = other["speed"];
      }
    }
    if (is_second) continue;
    text += fmt::format("{} {} - {}, {}\n", plain(link["kind"]), plain(link["from"]),
                        plain(link["to"]), speeds_text(link["speed"], back, "there", "back"));
  }
  return text;
}

std::string chosen_text(const json& report) {
  const json& chosen = report["chosen"];
  std::string text =
      fmt::format("\nchosen: {}: {}\n", plain(chosen["name"]), plain(chosen["reason"]));
  text += fmt::format("groups: {}\n", plain(chosen["description"]));
  text += fmt::format("{:.1f} ms per GB; {} is the bottleneck\n",
                      chosen["seconds_per_gb"].get<double>() * 1e3, plain(chosen["binds"]));
  json shares = json::array();
  for (const json& group : chosen["groups"]) {
    for (const json& share : group["shares"]) shares.push_back(share);
  }
  text += render_table(shares, kShareColumns);
  json loads = chosen["loads"];
  for (json& load : loads) {
    load["speed"] = speed_text(load["speed"]);
    load["bytes"] = fmt::format("{:.4f}", load["bytes"].get<double>());
  }
  return text + render_table(loads, kHostLoadColumns);
}

}  // namespace

json host_report(const host::Routes& routes, const host::HostPlan& plan) {
  const host::Host& machine = routes.host();
  json report = {
      {"name", machine.name},           {"vertices", vertices_report(machine)},
      {"links", links_report(machine)}, {"notes", machine.notes},
      {"divisions", plan.divisions},    {"every_division", plan.every_division},
      {"strategies", json::array()},    {"chosen", strategy_report(routes, plan.chosen)}};
  for (const host::Strategy& strategy : plan.named) {
    report["strategies"].push_back(strategy_report(routes, strategy));
  }
  report["chosen"]["reason"] = reason_of(plan);
  report["chosen"]["loads"] = load_report(routes, plan.chosen.cost);
  return report;
}

std::string render_host_report(const json& report) {
  std::string text = fmt::format("machine \"{}\"\n", plain(report["name"]));
  for (const json& vertex : report["vertices"]) {
    if (!vertex.contains("under")) text += tree_text(report, vertex, 0);
  }
  text += links_text(report);
  for (const json& note : report["notes"]) text += fmt::format("note: {}\n", plain(note));
  json strategies = report["strategies"];
  if (report["chosen"]["name"] == "other") strategies.push_back(report["chosen"]);
  for (json& one : strategies) {
    one["time"] = fmt::format("{:.1f}", one["seconds_per_gb"].get<double>() * 1e3);
  }
  return text + "\n" + render_table(strategies, kStrategyColumns) + chosen_text(report);
}

}  // namespace tally::control
