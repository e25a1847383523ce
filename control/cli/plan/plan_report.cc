#include "control/cli/plan/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "base/text/speed.h"
#include "control/cli/common/tables.h"
#include "control/cli/plan/figures.h"
#include "control/plan/json/plan_json.h"
#include "control/plan/model/load.h"
#include "control/plan/model/pieces.h"
#include "control/plan/model/tree.h"

namespace tally::control {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestShape = 60;  // approximate bytes

constexpr std::array kTreeColumns = {
    Column{"tree", "tree"},
    Column{"weight", "weight"},
    Column{"share", "share", Format::kPercent},
    Column{"root", "root", Format::kText},
    Column{"levels", "levels"},
    Column{"shape", "shape", Format::kText},
};

constexpr std::array kLoadColumns = {
    Column{"what", "load", Format::kText},
    Column{"capacity", "capacity"},
    Column{"bytes", "bytes/byte"},
    Column{"busy", "busy", Format::kPercent},
};

// "root(a b(c d))", cut off where it gets long.
void add_shape(const plan::Shape& shape, const plan::Network& network, plan::VertexId id,
               std::string& text) {
  text += network.name_of(id);
  const auto children = shape.children(id);
  if (children.empty()) return;
  text += '(';
  for (const plan::VertexId child : children) {
    if (text.back() != '(') text += ' ';
    if (text.size() > kLongestShape) {
      text += "...";
      break;
    }
    add_shape(shape, network, child, text);
  }
  text += ')';
}

json tree_row(const plan::Network& network, const plan::Tree& tree, std::size_t index) {
  const auto up = plan::Shape::of(tree.up, "up");
  const auto down = plan::Shape::of(tree.way_down(), "down");
  if (!up || !down) return json::object();
  std::string text;
  add_shape(*up, network, up->root(), text);
  if (!tree.down.empty()) {
    std::string back;
    add_shape(*down, network, down->root(), back);
    text += " down " + back;
  }
  return {{"tree", index},
          {"weight", tree.weight},
          {"share", static_cast<double>(tree.weight) / plan::kWeightUnit},
          {"root", network.name_of(up->root())},
          {"levels", std::max(up->depth(), down->depth())},
          {"shape", text}};
}

json load_rows(const plan::Network& network, const plan::ClassLoad& load) {
  json rows = json::array();
  for (const std::size_t index : plan::distinct_loads(load, network)) {
    rows.push_back(place_report(load.loads[index], load.tau, network));
  }
  return rows;
}

json class_report(plan::Routes& routes, const plan::SizeClass& size_class,
                  const PlanQuestion& question, bool takes_it) {
  const plan::Network& network = routes.network();
  const plan::ClassLoad load = plan::evaluate(routes, size_class);
  json report = {{"max_bytes", size_class.max_bytes ? json(*size_class.max_bytes) : json()},
                 {"chunk", size_class.chunk},
                 {"tau", load.tau},
                 {"binds", load.tau > 0 ? plan::describe(load.loads[load.binds], network) : ""},
                 {"loads", load_rows(network, load)},
                 {"trees", json::array()}};
  for (std::size_t i = 0; i < size_class.trees.size(); ++i) {
    report["trees"].push_back(tree_row(network, size_class.trees[i], i));
  }
  if (takes_it) {
    report["predicted"] = {
        {"bytes", question.bytes},
        {"seconds", plan::operation_seconds(routes, size_class, static_cast<double>(question.bytes),
                                            question.hop_seconds)}};
  }
  return report;
}

std::string render_class(const json& report, std::size_t rows) {
  const json& max_bytes = report["max_bytes"];
  std::string text = fmt::format(
      "operations of {}, in chunks of {} bytes: {}\n",
      max_bytes.is_null() ? "any size" : fmt::format("up to {} bytes", max_bytes.dump()),
      report["chunk"].dump(), count_of(report["trees"].size(), "tree"));
  text += render_heaviest(report["trees"], "weight", kTreeColumns, rows);
  text += render_places(report["loads"], rows);
  const std::string binds = format_value(report["binds"], Format::kText);
  text += fmt::format("tau {}{}\n", tau_text(report["tau"]),
                      binds.empty() ? "" : fmt::format("; {} binds", binds));
  if (const auto predicted = report.find("predicted"); predicted != report.end()) {
    text += fmt::format("{} bytes: {}\n", (*predicted)["bytes"].dump(),
                        seconds_text((*predicted)["seconds"]));
  }
  return text;
}

}  // namespace

json place_report(const plan::Load& load, double tau, const plan::Network& network) {
  return {{"what", plan::describe(load, network)},
          {"kind", plan::passage_name(load.passage)},
          {"capacity", load.capacity},
          {"bytes", load.bytes},
          {"busy", tau > 0 ? load.seconds() / tau : 0}};
}

std::string render_places(json places, std::size_t rows) {
  for (json& place : places) {
    place["capacity"] = speed_text(place["capacity"]);
    place["bytes"] = fmt::format("{:.4f}", place["bytes"].get<double>());
  }
  return render_heaviest(std::move(places), "busy", kLoadColumns, rows);
}

json plan_report(const plan::Plan& plan, const PlanQuestion& question) {
  std::array<std::size_t, 3> roles{};
  for (const plan::Vertex& vertex : plan.network.vertices) {
    ++roles[static_cast<std::size_t>(vertex.role)];
  }
  json report = {{"method", plan.method},
                 {"epoch", plan.epoch},
                 {"objective", plan::objective(plan)},
                 {"workers", roles[0]},
                 {"helpers", roles[1]},
                 {"switches", roles[2]},
                 {"links", plan.network.links.size()},
                 {"domains", json::array()}};
  plan::Routes routes(plan.network);
  for (const plan::Domain& domain : plan.domains) {
    json part = {
        {"name", domain.name}, {"workers", domain.workers.size()}, {"classes", json::array()}};
    const plan::SizeClass& taken = plan::size_class_of(domain, question.bytes);
    for (const plan::SizeClass& size_class : domain.classes) {
      const bool takes_it = &size_class == &taken;
      part["classes"].push_back(class_report(routes, size_class, question, takes_it));
    }
    if (const std::size_t inputs = plan::most_inputs(domain); inputs > 0) {
      plan::Pieces wanted = plan::wanted_pieces(domain);
      const bool paced = plan::evaluate(routes, domain.classes.back()).tau > 0;
      if (paced) wanted = plan::paced_pieces(wanted);
      const plan::Pieces served = plan::served_pieces(wanted, inputs);
      part["between_nodes"] = {{"chunk", served.bytes}, {"window", served.count}};
    }
    if (domain.certificate) {
      part["certificate"] = {{"tau", domain.certificate->tau},
                             {"lower_bound", domain.certificate->lower_bound}};
    }
    report["domains"].push_back(std::move(part));
  }
  return report;
}

std::string render_plan_report(const json& report, std::size_t rows) {
  std::string text = fmt::format(
      "plan \"{}\", epoch {}, {}: {}, {}, {}, {}\n", format_value(report["method"], Format::kText),
      report["epoch"].dump(), format_value(report["objective"], Format::kText),
      count_of(report["workers"], "worker"), count_of(report["helpers"], "helper"),
      count_of(report["switches"], "switch"), count_of(report["links"], "link"));
  text += objective_note(report["objective"].get<std::string>());
  for (const json& domain : report["domains"]) {
    text += fmt::format("\ndomain \"{}\": {}\n", format_value(domain["name"], Format::kText),
                        count_of(domain["workers"], "worker"));
    for (const json& one : domain["classes"]) text += render_class(one, rows);
    if (const auto between = domain.find("between_nodes"); between != domain.end()) {
      text += fmt::format("between nodes: {} chunks of up to {} bytes in flight, each way\n",
                          (*between)["window"].dump(), (*between)["chunk"].dump());
    }
    const auto certificate = domain.find("certificate");
    if (certificate == domain.end()) continue;
    const double tau = (*certificate)["tau"], bound = (*certificate)["lower_bound"];
    if (bound <= 0) continue;
    text += fmt::format(
        "lower bound {:.4g} ns per byte, says the plan: at most {:.2f}% from the "
        "best\n",
        bound * 1e9, 100 * std::max(0.0, tau / bound - 1));
  }
  return text;
}

}  // namespace tally::control
