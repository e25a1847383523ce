#include "control/cli/inspect/compare_command.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/sizes.h"
#include "base/text/speed.h"
#include "control/cli/common/tables.h"
#include "control/cli/inspect/answers.h"
#include "control/cli/plan/figures.h"
#include "control/cli/plan/plan_files.h"
#include "control/plan/advice/comparison.h"
#include "control/plan/json/plan_json.h"

namespace tally::control {
namespace {

using nlohmann::json;

// Operations whose times are compared: 4 KiB, 16 KiB, ... 1 GiB.
constexpr std::uint64_t kLeastCompared = 4 << 10, kMostCompared = 1 << 30, kComparedStep = 4;

constexpr std::array kTimeColumns = {
    Column{"bytes", "bytes"},
    Column{"first", "first, ms"},
    Column{"second", "second, ms"},
    Column{"ratio", "second / first"},
};

constexpr std::array kPairColumns = {
    Column{"more", "more bytes/byte"},
    Column{"first", "first"},
    Column{"second", "second"},
    Column{"first_busy", "busy", Format::kPercent},
    Column{"second_busy", "busy", Format::kPercent},
    Column{"what", "place", Format::kText},
};

json use_report(const std::optional<plan::PlaceUse>& use) {
  if (!use) return nullptr;
  return {{"bytes", use->bytes}, {"capacity", use->capacity}, {"busy", use->busy}};
}

json plan_summary(const std::string& file, const plan::Plan& plan, double tau,
                  const std::string& binds) {
  return {{"file", file},
          {"method", plan.method},
          {"epoch", plan.epoch},
          {"tau", tau},
          {"binds", binds}};
}

json comparison_report(const plan::Comparison& compared) {
  json report = {{"times", json::array()}, {"places", json::array()}};
  for (const plan::SizeTimes& one : compared.times) {
    report["times"].push_back({{"bytes", one.bytes}, {"first", one.first}, {"second", one.second}});
  }
  for (const plan::PlacePair& pair : compared.places) {
    report["places"].push_back({{"what", pair.name},
                                {"more", pair.more()},
                                {"first", use_report(pair.first)},
                                {"second", use_report(pair.second)}});
  }
  return report;
}

std::string summary_text(std::string_view which, const json& summary) {
  const auto plain = [](const json& value) { return format_value(value, Format::kText); };
  const std::string binds = plain(summary["binds"]);
  return fmt::format("{}: {}, plan \"{}\", epoch {}: {}{}\n", which, plain(summary["file"]),
                     plain(summary["method"]), summary["epoch"].dump(),
                     tau_text(number_at(summary, "tau")),
                     binds.empty() ? "" : fmt::format("; {} binds", binds));
}

std::string times_text(json times) {
  for (json& row : times) {
    const double first = number_at(row, "first"), second = number_at(row, "second");
    row["bytes"] = short_size_text(row["bytes"].get<std::uint64_t>());
    row["first"] = fmt::format("{:.4g}", first * 1e3);
    row["second"] = fmt::format("{:.4g}", second * 1e3);
    if (first > 0) row["ratio"] = fmt::format("{:.3f}", second / first);
  }
  return "\n" + render_table(times, kTimeColumns);
}

// The places with the largest differences.
std::string places_text(const json& places, std::size_t most) {
  json rows = json::array();
  std::size_t differ = 0;
  for (const json& place : places) {
    if (number_at(place, "more") == 0) continue;
    if (++differ > most) continue;
    json row = {{"what", place["what"]},
                {"more", fmt::format("{:+.4f}", number_at(place, "more"))}};
    for (const std::string which : {"first", "second"}) {
      if (place[which].is_null()) continue;
      row[which] = fmt::format("{:.4f}", number_at(place[which], "bytes"));
      row[which + "_busy"] = place[which]["busy"];
    }
    rows.push_back(std::move(row));
  }
  if (differ == 0) return "\nevery place carries the same bytes in both\n";
  std::string text = "\n" + render_table(rows, kPairColumns);
  if (differ > most) text += fmt::format("and {} more: --all\n", differ - most);
  return text;
}

// The plan of a file, and its domain.
struct OnePlan {
  plan::Plan plan;
  const plan::Domain* domain = nullptr;
};

Outcome read_one(const std::string& file, const std::string& domain, OnePlan& one) {
  auto plan = read_plan_file(file, UINT32_MAX);
  if (!plan) return plan.error();
  one.plan = std::move(plan).value();
  const auto found = find_domain(one.plan, domain);
  if (!found) return Error{found.status(), fmt::format("{}: {}", file, found.error().message)};
  one.domain = *found;
  return Unit{};
}

}  // namespace

void add_compare(CLI::App& plan, InspectArguments& arguments) {
  CompareArguments& own = arguments.compare;
  auto* compare = plan.add_subcommand(
      "compare",
      "two plans for the same workers: times by size, what limits each, and which places carry "
      "more");
  compare->add_option("FIRST", own.first, "a plan, a file")->required();
  compare->add_option("SECOND", own.second, "another plan")->required();
  add_domain_option(*compare, own.domain);
  add_bytes_option(*compare, own.bytes, "compare the loads of an operation of this size");
  add_hop_option(*compare, own.hop_us);
  add_all_flag(*compare, own.all);
  compare->footer(
      "Machines and switches of the two are the same if their names are. Exit status: 0 compared,\n"
      "2 a file or an option is refused (stderr says why).");
  compare->parse_complete_callback([&arguments] { arguments.verb = InspectVerb::kCompare; });
}

PlanAnswer answer_compare(const CompareArguments& arguments, bool as_json) {
  constexpr int kRefused = 2;
  const auto bytes = operation_bytes(arguments.bytes);
  if (!bytes) return refusal(kRefused, bytes.error().message);
  OnePlan first, second;
  if (auto read = read_one(arguments.first, arguments.domain, first); !read) {
    return refusal(kRefused, read.error().message);
  }
  if (auto read = read_one(arguments.second, arguments.domain, second); !read) {
    return refusal(kRefused, read.error().message);
  }
  const std::string_view objectives[] = {plan::objective(first.plan), plan::objective(second.plan)};
  if (objectives[0] != objectives[1]) {
    return refusal(
        kRefused, fmt::format("{} is for the objective \"{}\", and {} for \"{}\"; compare plans of "
                              "one objective",
                              arguments.first, objectives[0], arguments.second, objectives[1]));
  }
  const auto sizes = size_sweep(kLeastCompared, kMostCompared, kComparedStep);
  const auto compared = plan::compare(first.plan, *first.domain, second.plan, *second.domain,
                                      {sizes, *bytes, arguments.hop_us * 1e-6});
  if (!compared) {
    return refusal(kRefused, fmt::format("{} and {}: {}", arguments.first, arguments.second,
                                         compared.error().message));
  }
  json report = comparison_report(*compared);
  report["bytes"] = *bytes;
  report["first"] =
      plan_summary(arguments.first, first.plan, compared->first_tau, compared->first_binds);
  report["second"] =
      plan_summary(arguments.second, second.plan, compared->second_tau, compared->second_binds);
  const std::string text = summary_text("first", report["first"]) +
                           summary_text("second", report["second"]) + times_text(report["times"]) +
                           places_text(report["places"], most_rows(arguments.all));
  return reported(report, text, as_json);
}

}  // namespace tally::control
