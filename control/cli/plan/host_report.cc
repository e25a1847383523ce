#include "control/cli/plan/host_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

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
  // Whole steps, so that loads that differ by rounding stay in the order of the links.
  const auto steps = [](const json& load) {
    return std::round(load["busy"].get<double>() / host::kEqual);
  };
  std::stable_sort(loads.begin(), loads.end(),
                   [&](const json& a, const json& b) { return steps(a) > steps(b); });
  return loads;
}

json links_report(const host::Host& machine) {
  json links = json::array();
  for (const host::Link& link : machine.links) {
    links.push_back({{"from", machine.vertices[link.from].name},
                     {"to", machine.vertices[link.to].name},
                     {"kind", host::bus_name(link.bus)},
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

// Which ways to divide the GPUs were compared with the chosen one, and with which shares.
std::string compared_text(const host::HostPlan& plan) {
  const std::string_view way = plan.is_every_way ? "way" : "usual way";
  if (plan.divisions == 1) return fmt::format("there is one {} to divide the GPUs", way);
  std::string text =
      fmt::format("no other of {} {}s to divide the GPUs takes less time", plan.divisions, way);
  if (plan.unsolved == plan.divisions) return text + " with equal shares";
  if (plan.unsolved > 0) {
    text += fmt::format(
        " ({} of them with equal shares, because the shares of the least time were not found)",
        plan.unsolved);
  }
  return text;
}

// Why the chosen strategy is the one.
std::string reason_of(const host::HostPlan& plan) {
  const host::Cost& chosen = plan.chosen.cost;
  bool by_copies = false, by_bytes = false;
  const host::Strategy* next = nullptr;
  for (const host::Strategy& other : plan.named) {
    if (!plan.chosen.name.empty() && other.name == plan.chosen.name) continue;
    if (other.cost.tau <= chosen.tau * (1 + host::kEqual)) {
      by_copies |= chosen.copies < other.cost.copies;
      by_bytes |= chosen.copies == other.cost.copies && host::is_better(chosen, other.cost);
    } else if (next == nullptr || other.cost.tau < next->cost.tau) {
      next = &other;
    }
  }
  std::string text = compared_text(plan);
  if (by_bytes) {
    text +=
        ", and of those with the same time and as few copies it moves the fewest bytes over links";
  } else if (by_copies) {
    text += ", and of those with the same time it has the fewest copies to host memory";
  }
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
    const bool is_pcie = link["kind"] == host::bus_name(host::Bus::kPcie);
    if (is_pcie && link["from"] == from && link["to"] == to) return link["speed"];
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
  struct BothWays {
    const json* link = nullptr;
    double back = 0;
  };
  std::vector<BothWays> lines;
  std::map<std::array<std::string, 3>, std::size_t> known;  // lines, by bus and ends
  for (const json& link : report["links"]) {
    const std::string bus = link["kind"], from = link["from"], to = link["to"];
    if (bus == host::bus_name(host::Bus::kPcie)) continue;
    const auto opposite = known.find({bus, to, from});
    if (opposite != known.end()) {
      lines[opposite->second].back = link["speed"];
      continue;
    }
    known[{bus, from, to}] = lines.size();
    lines.push_back({&link});
  }
  std::string text;
  for (const auto& [link, back] : lines) {
    text += fmt::format("{} {} - {}, {}\n", plain((*link)["kind"]), plain((*link)["from"]),
                        plain((*link)["to"]), speeds_text((*link)["speed"], back, "there", "back"));
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
      {"divisions", plan.divisions},    {"every_division", plan.every_division()},
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
