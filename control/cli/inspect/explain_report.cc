#include "control/cli/inspect/explain_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "base/text/speed.h"
#include "control/cli/common/tables.h"
#include "control/cli/inspect/change_report.h"
#include "control/cli/plan/figures.h"
#include "control/plan/advice/bottleneck.h"
#include "control/plan/json/plan_json.h"

namespace tally::control {
namespace {

using nlohmann::json;

constexpr std::array kKindColumns = {
    Column{"kind", "places", Format::kText},
    Column{"places", "all"},
    Column{"full", "full"},
    Column{"busy", "busiest", Format::kPercent},
    Column{"mean_busy", "mean", Format::kPercent},
    Column{"busiest", "the busiest", Format::kText},
};

constexpr std::array kBoundColumns = {
    Column{"share", "of the bound", Format::kPercent},
    Column{"what", "place", Format::kText},
};

json kinds_report(const plan::Bottleneck& found, const plan::Network& network) {
  json kinds = json::array();
  for (const plan::KindLoad& one : found.kinds) {
    kinds.push_back({{"kind", plan::plural_name(one.kind)},
                     {"places", one.places},
                     {"full", one.full},
                     {"busy", found.busy(one.busiest)},
                     {"mean_busy", one.mean_busy},
                     {"busiest", plan::describe(found.load.loads[one.busiest], network)}});
  }
  return kinds;
}

// The places that the prices of the proof name, and their kinds, those with the largest shares
// first.
json bound_report(const plan::Network& network, const plan::Certificate& certificate,
                  std::string_view from) {
  json bound = {{"tau", certificate.lower_bound},
                {"from", from},
                {"places", json::array()},
                {"kinds", json::array()}};
  if (certificate.dual.empty()) return bound;
  plan::Routes routes(network);
  const plan::Passages passages(routes);
  const std::vector<double> shares = plan::bound_shares(passages, certificate.dual);
  std::map<plan::PlaceKind, double> of_kinds;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] <= 0) continue;
    const auto& [passage, one, other, capacity] = passages.at(i);
    of_kinds[plan::kind_of(network, passage, one, other)] += shares[i];
    bound["places"].push_back(
        {{"what", plan::describe({passage, one, other, capacity, 0}, network)},
         {"kind", plan::passage_name(passage)},
         {"share", shares[i]}});
  }
  for (const auto& [kind, share] : of_kinds) {
    bound["kinds"].push_back({{"kind", plan::plural_name(kind)}, {"share", share}});
  }
  const auto by_share = [](const json& a, const json& b) {
    return number_at(a, "share") > number_at(b, "share");
  };
  std::stable_sort(bound["places"].begin(), bound["places"].end(), by_share);
  std::stable_sort(bound["kinds"].begin(), bound["kinds"].end(), by_share);
  return bound;
}

std::string plain_text(const json& value) {
  return format_value(value, Format::kText);
}

// The load of this place.
const json& load_of(const json& report, const json& place) {
  const json& loads = report["loads"];
  return *std::find_if(loads.begin(), loads.end(),
                       [&](const json& load) { return load["what"] == place; });
}

std::string bottleneck_text(const json& report, std::size_t rows) {
  const json& kind = report["kinds"][0];
  const json& busiest = load_of(report, report["binds"]);
  const double bytes = number_at(busiest, "bytes");
  std::string text = fmt::format(
      "\nbottleneck: {}, {} of {} full; {} carries {:.4g} byte{} for each byte of an operation, at "
      "{}\n",
      plain_text(kind["kind"]), kind["full"].dump(), kind["places"].dump(),
      plain_text(busiest["what"]), bytes, bytes == 1 ? "" : "s",
      speed_text(number_at(busiest, "capacity")));
  text += render_table(report["kinds"], kKindColumns) + "\n";
  return text + render_places(report["loads"], rows);
}

std::string bound_text(const json& report, std::size_t rows) {
  const json& bound = report["bound"];
  if (bound.is_null()) return "\nlower bound: the plan has none\n";
  const double tau = number_at(report, "tau"), least = number_at(bound, "tau");
  std::string text =
      fmt::format("\nlower bound, by {}: {}", plain_text(bound["from"]), tau_text(least));
  if (least > 0) {
    text += fmt::format("; this plan takes {:.2f}% more", 100 * std::max(0.0, tau / least - 1));
  }
  text += "\n";
  if (bound["places"].empty()) return text + "it has no proof that names places\n";
  std::string kinds;
  for (const json& one : bound["kinds"]) {
    kinds += fmt::format("{}{} {:.1f}%", kinds.empty() ? "" : ", ", plain_text(one["kind"]),
                         100 * number_at(one, "share"));
  }
  return text + fmt::format("it comes from: {}\n", kinds) +
         render_heaviest(bound["places"], "share", kBoundColumns, rows);
}

}  // namespace

json explain_report(const plan::Plan& plan, const plan::Domain& domain,
                    const PlanQuestion& question) {
  const plan::Network& network = plan.network;
  const plan::SizeClass& size_class = plan::size_class_of(domain, question.bytes);
  plan::Routes routes(network);
  const plan::Bottleneck found = plan::find_bottleneck(routes, size_class);
  const double tau = found.load.tau;
  const std::size_t machines = network.machines();
  json report = {
      {"method", plan.method},
      {"objective", plan::objective(plan)},
      {"domain", domain.name},
      {"domains", plan.domains.size()},
      {"workers", domain.workers.size()},
      {"helpers", machines - domain.workers.size()},
      {"switches", network.vertices.size() - machines},
      {"bytes", question.bytes},
      {"max_bytes", size_class.max_bytes ? json(*size_class.max_bytes) : json()},
      {"seconds", plan::operation_seconds(routes, size_class, static_cast<double>(question.bytes),
                                          question.hop_seconds)},
      {"tau", tau},
      {"binds", tau > 0 ? plan::describe(found.load.loads[found.binds()], network) : ""},
      {"kinds", kinds_report(found, network)},
      {"loads", json::array()},
      {"bound", nullptr}};
  for (const std::size_t index : found.places) {
    report["loads"].push_back(place_report(found.load.loads[index], tau, network));
  }
  // The certificate is about the last class.
  const auto& certificate = domain.certificate;
  if (certificate && certificate->lower_bound > 0 && !size_class.max_bytes) {
    report["bound"] = bound_report(network, *certificate, "the plan");
  }
  return report;
}

void add_advice(json& report, const plan::Network& network, const Result<plan::Advice>& advice) {
  if (!advice) {
    report["changes"] = {{"error", advice.error().message}};
    return;
  }
  const bool names_places = !report["bound"].is_null() && !report["bound"]["places"].empty();
  if (!names_places) {
    report["bound"] = bound_report(network, advice->now, "a plan that was made anew");
  }
  report["changes"] = changes_report(network, *advice);
}

std::string render_explanation(const json& report, std::size_t rows) {
  std::string text =
      fmt::format("plan \"{}\", domain \"{}\"{}: {}, {}, {}\n", plain_text(report["method"]),
                  plain_text(report["domain"]),
                  report["domains"] > 1 ? fmt::format(" (of {})", report["domains"].dump()) : "",
                  count_of(report["workers"], "worker"), count_of(report["helpers"], "helper"),
                  count_of(report["switches"], "switch"));
  const double tau = number_at(report, "tau");
  text += fmt::format("{} bytes: {}; {}\n", report["bytes"].dump(),
                      seconds_text(number_at(report, "seconds")), tau_text(tau));
  text += objective_note(plain_text(report["objective"]));
  if (tau <= 0) return text;
  text += bottleneck_text(report, rows) + bound_text(report, rows);
  const auto changes = report.find("changes");
  if (changes == report.end()) return text;
  // New plans are for operations of any size.
  const std::optional<double> compared =
      report["max_bytes"].is_null() ? std::optional(tau) : std::nullopt;
  return text + render_changes(*changes, compared, rows);
}

}  // namespace tally::control
