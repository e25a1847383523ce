#include "control/cli/views.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

#include "control/cli/common/tables.h"

namespace tally::control {
namespace {

using nlohmann::json;

constexpr std::array kStatusColumns = {
    Column{"address", "address", Format::kText},
    Column{"version", "version", Format::kText},
    Column{"pid", "pid"},
    Column{"uptime_s", "uptime", Format::kSeconds},
    Column{"shards", "shards"},
    Column{"rails", "rails", Format::kText},
    Column{"isa", "isa", Format::kText},
    Column{"poll", "poll", Format::kText},
    Column{"hugepages", "hugepages", Format::kText},
    Column{"jobs", "jobs"},
    Column{"sessions", "sessions"},
    Column{"connections", "connections", Format::kText},
    Column{"timeouts", "time-outs", Format::kText},
};

// The time-outs of node.status, in the order of the row.
constexpr std::array<std::pair<const char*, const char*>, 10> kTimeouts = {{
    {"fault_ms", "fault"},
    {"deadline_ms", "deadline"},
    {"repair_ms", "repair"},
    {"change_ms", "change of plan"},
    {"node_silence_ms", "node leaves"},
    {"rank_resume_ms", "rank resumes"},
    {"placing_ms", "placing"},
    {"node_return_ms", "node returns"},
    {"node_rejoin_ms", "node rejoins"},
    {"heartbeat_ms", "heartbeat"},
}};

constexpr std::array kShardColumns = {
    Column{"index", "shard", Format::kText},
    Column{"notices", "notices", Format::kCount, true},
    Column{"notices_refused", "refused", Format::kCount, true},
    Column{"completions", "completions", Format::kCount, true},
    Column{"failures", "failures", Format::kCount, true},
    Column{"tiles", "tiles", Format::kCount, true},
    Column{"bytes_in", "in", Format::kBytes, true},
    Column{"bytes_out", "out", Format::kBytes, true},
    Column{"bytes_up", "up", Format::kBytes, true},
    Column{"bytes_down", "down", Format::kBytes, true},
    Column{"damaged", "damaged", Format::kCount, true},
    Column{"peers_lost", "lost", Format::kCount, true},
    Column{"turns", "turns", Format::kCount, true},
    Column{"idle_turns", "idle", Format::kCount, true},
    Column{"sleeps", "sleeps", Format::kCount, true},
};

constexpr std::array kRoceColumns = {
    Column{"index", "shard", Format::kText},
    Column{"received", "packets in", Format::kCount},
    Column{"sent", "out", Format::kCount},
    Column{"again", "again", Format::kCount},
    Column{"reads_repaired", "repaired", Format::kCount},
    Column{"out_of_order", "early", Format::kCount},
    Column{"duplicates", "twice", Format::kCount},
    Column{"strangers", "strange", Format::kCount},
    Column{"marked", "marked", Format::kCount},
    Column{"notices_sent", "CNP out", Format::kCount},
    Column{"notices_taken", "CNP in", Format::kCount},
    Column{"wrong_icrc", "wrong ICRC", Format::kCount},
    Column{"no_buffer", "no buffer", Format::kCount},
    Column{"wrong_shard", "wrong shard", Format::kCount},
    Column{"missed", "missed", Format::kCount},
};

constexpr std::array kJobColumns = {
    Column{"name", "job", Format::kText},
    Column{"epoch", "epoch"},
    Column{"joined", "joined"},
    Column{"ranks", "ranks"},
    Column{"weight", "weight"},
    Column{"here", "trees", Format::kText},
    Column{"height", "height"},
    Column{"nodes", "nodes"},
    Column{"plan_epoch", "plan"},
    Column{"regions", "regions"},
    Column{"region_bytes", "registered", Format::kBytes},
    Column{"parts_outstanding", "parts"},
    Column{"parts", "done", Format::kCount, true},
    Column{"bytes", "in", Format::kBytes, true},
    Column{"mean_us", "us/part"},
    Column{"waiting", "wait", Format::kPercent},
    Column{"queueing", "queue", Format::kPercent},
    Column{"pulling", "pull", Format::kPercent},
    Column{"summing", "sum", Format::kPercent},
    Column{"pushing", "push", Format::kPercent},
};

constexpr std::array kClusterJobColumns = {
    Column{"name", "job", Format::kText},
    Column{"epoch", "epoch"},
    Column{"stage", "stage", Format::kText},
    Column{"here", "ranks", Format::kText},
    Column{"places", "nodes"},
    Column{"plan", "plan", Format::kText},
    Column{"waits_for", "waits for", Format::kText},
};

constexpr std::array kNodeColumns = {
    Column{"name", "node", Format::kText},
    Column{"role", "role", Format::kText},
    Column{"host", "host", Format::kText},
    Column{"address", "address", Format::kText},
    Column{"shards", "shards"},
    Column{"rails", "rails", Format::kText},
    Column{"speed", "NIC/s", Format::kBytes},
    Column{"jobs", "jobs"},
    Column{"trees", "trees"},
};

constexpr std::array<std::string_view, 5> kStages = {"waiting", "queueing", "pulling", "summing",
                                                     "pushing"};

constexpr std::array kWaitingColumns = {
    Column{"job", "job", Format::kText},
    Column{"tag", "tag"},
    Column{"round", "round"},
    Column{"seconds", "waiting", Format::kSeconds},
    Column{"missing", "for ranks", Format::kText},
};

constexpr std::array kStuckColumns = {
    Column{"job", "job", Format::kText},        Column{"kind", "kind", Format::kText},
    Column{"who", "who", Format::kText},        Column{"seconds", "since", Format::kSeconds},
    Column{"text", "operation", Format::kText},
};

constexpr std::array kRankColumns = {
    Column{"job", "job", Format::kText},
    Column{"rank", "rank"},
    Column{"notices", "notices", Format::kCount, true},
    Column{"completions", "completions", Format::kCount, true},
    Column{"failures", "failures", Format::kCount, true},
    Column{"bytes_in", "in", Format::kBytes, true},
    Column{"bytes_out", "out", Format::kBytes, true},
    Column{"damaged", "damaged", Format::kCount, true},
    Column{"times_last", "last", Format::kCount, true},
    Column{"late_us", "us late"},
    Column{"waited_for", "waited for"},
};

// For each row, the row of the last sample with the same keys; null when there is none.
json align(const json& rows, const json& last, std::initializer_list<const char*> keys) {
  json aligned = json::array();
  for (const json& row : rows) {
    json match;
    for (const json& candidate : last) {
      const auto same = [&](const char* key) { return candidate.value(key, json()) == row[key]; };
      if (std::all_of(keys.begin(), keys.end(), same)) match = candidate;
    }
    aligned.push_back(std::move(match));
  }
  return aligned;
}

// How much the key grew since the last sample; without a sample, its whole value.
double grown(const json& row, const json& last, const std::string& key) {
  return number_at(row, key) - (last.is_object() ? number_at(last, key) : 0);
}

// The times of the interval as shares of the time that its parts took.
void add_shares(json& shown, const json& row, const json& last) {
  double total = 0;
  for (const auto stage : kStages) total += grown(row, last, std::string(stage) + "_ns");
  const double parts = grown(row, last, "parts");
  if (total <= 0 || parts <= 0) return;
  shown["mean_us"] = total / parts / kMicrosecond;
  for (const auto stage : kStages) {
    shown[std::string(stage)] = grown(row, last, std::string(stage) + "_ns") / total;
  }
}

void add_lateness(json& shown, const json& row, const json& last) {
  const double times = grown(row, last, "times_last");
  if (times > 0) shown["late_us"] = grown(row, last, "lateness_ns") / times / kMicrosecond;
}

// The rows as they are shown: since the last sample, or since the beginning. `add` adds derived
// columns.
template <typename Add>
std::string render_since(const json& rows, const json& before, Nanos now, Sample& last,
                         std::span<const Column> columns, Add add) {
  const bool again = last.time != 0;
  const double seconds = static_cast<double>(now - last.time) / kSecond;
  json shown = again ? rates(rows, before, seconds, columns) : rows;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    add(shown[i], rows[i], again ? before[i] : json());
  }
  last = {rows, now};
  return (again ? "per second:\n" : "") + render_table(shown, columns);
}

// "2"; "1/2, not 10.0.1.1"; null when the node reports none.
json rails_text(const json& rails) {
  if (!rails.is_array() || rails.empty()) return nullptr;
  std::size_t up = 0;
  std::string down;
  for (const json& rail : rails) {
    if (rail.value("up", true)) {
      ++up;
    } else {
      down += (down.empty() ? ", not " : ", ") + rail.value("address", "");
    }
  }
  return down.empty() ? fmt::format("{}", up) : fmt::format("{}/{}{}", up, rails.size(), down);
}

// "12, 3 of them anonymous; closed: 40 idle, 9 for newer connections; 2 refused"; null when the
// node reports none.
json connections_text(const json& counts) {
  if (!counts.is_object()) return nullptr;
  const auto number = [&](const char* key) { return counts.value(key, std::uint64_t{0}); };
  const std::uint64_t anonymous = number("anonymous") + number("operators");
  std::string text =
      fmt::format("{}, {} of them anonymous", number("identified") + anonymous, anonymous);
  const std::pair<const char*, const char*> causes[] = {
      {"closed_idle", "idle"},
      {"closed_for_newer", "for newer connections"},
      {"closed_for_memory", "for memory"},
      {"closed_for_descriptors", "for descriptors"}};
  std::string closed;
  for (const auto& [key, what] : causes) {
    if (number(key) == 0) continue;
    closed += fmt::format("{}{} {}", closed.empty() ? "; closed: " : ", ", number(key), what);
  }
  for (const auto& [key, what] : {std::pair{"refused", "refused"},
                                  std::pair{"refused_keys", "refused for what they showed"}}) {
    if (number(key) != 0) closed += fmt::format("; {} {}", number(key), what);
  }
  return text + closed;
}

std::string listed(const json& ranks) {
  std::string text;
  for (const json& rank : ranks) text += (text.empty() ? "" : ", ") + rank.dump();
  return text;
}

json waiting_rows(const json& jobs) {
  json rows = json::array();
  for (const json& job : jobs) {
    for (json entry : job.value("waiting", json::array())) {
      entry["job"] = job.value("name", "");
      std::string ranks = listed(entry.value("missing", json::array()));
      // Only the child nodes know which of their ranks are missing.
      const std::string below = listed(entry.value("missing_below", json::array()));
      if (!below.empty()) ranks += (ranks.empty() ? "some of " : ", some of ") + below;
      entry["missing"] = ranks;
      rows.push_back(std::move(entry));
    }
  }
  return rows;
}

json stuck_rows(const json& jobs) {
  json rows = json::array();
  for (const json& job : jobs) {
    for (json entry : job.value("stuck", json::array())) {
      entry["job"] = job.value("name", "");
      entry["seconds"] = number_at(entry, "since_ms") / 1000;
      rows.push_back(std::move(entry));
    }
  }
  return rows;
}

std::string section(const char* title, const json& rows, std::span<const Column> columns) {
  return rows.empty() ? "" : fmt::format("\n{}:\n", title) + render_table(rows, columns);
}

// "fault 60 s, deadline 60 s, ...". Nodes of earlier releases have none.
json timeouts_text(const json& timeouts) {
  std::string text;
  for (const auto& [key, title] : kTimeouts) {
    const auto found = timeouts.is_object() ? timeouts.find(key) : timeouts.end();
    if (found == timeouts.end() || !found->is_number()) continue;
    text +=
        fmt::format("{}{} {:g} s", text.empty() ? "" : ", ", title, found->get<double>() / 1000);
  }
  return text.empty() ? json() : json(text);
}

}  // namespace

std::string render_status(const json& status) {
  std::string text;
  for (const Column& column : kStatusColumns) {
    const auto at = status.find(column.key);
    json value = at == status.end() ? json(nullptr) : *at;
    if (column.key == std::string_view("rails")) value = rails_text(value);
    if (column.key == std::string_view("connections")) value = connections_text(value);
    if (column.key == std::string_view("timeouts")) value = timeouts_text(value);
    text += fmt::format("{:<11} {}\n", column.title, format_value(value, column.format));
  }
  return text;
}

// The packets of nodes that serve RoCE by themselves, since their start. Empty for others.
std::string render_roce(const json& stats) {
  json rows = json::array();
  for (const json& shard : stats.value("shards", json::array())) {
    if (!shard.contains("roce")) continue;
    rows.push_back(shard["roce"]);
    rows.back()["index"] = shard.value("index", json());
  }
  return rows.empty() ? "" : "\n" + render_table(rows, kRoceColumns);
}

std::string render_stats(const json& stats, Nanos now, Sample& last) {
  json rows = stats.value("shards", json::array());
  if (rows.size() > 1) {
    json totals = stats.value("totals", json::object());
    totals["index"] = "all";
    rows.push_back(std::move(totals));
  }
  const json before = align(rows, last.rows, {"index"});
  return render_since(rows, before, now, last, kShardColumns, [](auto&, auto&, auto&&) {}) +
         render_roce(stats);
}

std::string render_jobs(const json& jobs, Nanos now, Sample& last) {
  json rows = json::array();
  std::string notes;
  for (json job : jobs) {
    job.erase("waiting");  // a list here, and a share in the table
    const json times = job.value("times", json::object());
    if (times.is_object()) job.update(times);
    if (const json trees = job.value("trees", json()); trees.is_array()) {
      job["here"] = fmt::format("{}/{}", trees.size(), number_at(job, "trees_of_plan"));
    }
    if (const auto names = names_at(job, "stands_in_for"); !names.empty()) {
      notes += fmt::format("this node stands in for {} in job {}, epoch {:.0f}\n", names,
                           format_value(job.value("name", json()), Format::kText),
                           number_at(job, "epoch"));
    }
    rows.push_back(std::move(job));
  }
  const json before = align(rows, last.rows, {"name", "epoch"});
  const std::string table = render_since(rows, before, now, last, kJobColumns, add_shares) + notes;
  if (rows.empty()) return "no jobs\n";
  return table +
         section("waiting for ranks that have not announced", waiting_rows(jobs), kWaitingColumns) +
         section("stuck or failed", stuck_rows(jobs), kStuckColumns);
}

std::string render_cluster_jobs(const json& jobs) {
  json rows = json::array();
  std::string troubles, without;
  for (json job : jobs) {
    job["here"] = fmt::format("{}/{}", number_at(job, "come"), number_at(job, "ranks"));
    job["places"] = job.value("nodes", json::array()).size();
    const bool placed = job["places"] != 0;
    const std::string source = job.value("source", "closed form");
    job["plan"] = !placed ? json()
                  : source == "file"
                      ? json(fmt::format("file, epoch {}", number_at(job, "plan_epoch")))
                      : json(source);
    if (job.value("waits_for", "").empty()) job.erase("waits_for");
    if (const std::string trouble = job.value("trouble", ""); !trouble.empty()) {
      troubles += fmt::format("{}: {}\n", format_value(job.value("name", json()), Format::kText),
                              format_value(trouble, Format::kText));
    }
    if (const json left_out = job.value("left_out", json::array()); !left_out.empty()) {
      without += fmt::format("{}: {}\n", format_value(job.value("name", json()), Format::kText),
                             listed(left_out));
    }
    rows.push_back(std::move(job));
  }
  if (rows.empty()) return "no jobs that this node coordinates\n";
  std::string text = render_table(rows, kClusterJobColumns);
  if (!troubles.empty()) text += "\ncould not change their plan:\n" + troubles;
  if (!without.empty())
    text += "\nranks that are lost, and without which the jobs go on:\n" + without;
  return text;
}

std::string render_nodes(const json& nodes) {
  json rows = json::array();
  for (json node : nodes) {
    const std::string tcp = node.value("tcp", "");
    node["address"] = tcp.empty() ? node.value("unix", "") : tcp;
    if (number_at(node, "speed") == 0) node.erase("speed");
    if (node.value("draining", false)) node["role"] = node.value("role", "") + ", draining";
    if (const auto names = names_at(node, "stands_in_for"); !names.empty()) {
      node["role"] = fmt::format("{}, stands in for {}", node.value("role", ""), names);
    }
    if (const std::string rack = text_at(node, "rack"); !rack.empty()) {
      node["role"] = fmt::format("{}, rack {}", node.value("role", ""), rack);
    }
    node["rails"] = rails_text(node.value("rails", json()));
    rows.push_back(std::move(node));
  }
  if (rows.empty()) return "no members: this node stands alone, or is not the coordinator\n";
  return render_table(rows, kNodeColumns);
}

std::string render_ranks(const json& metrics, Nanos now, Sample& last) {
  json rows = json::array();
  for (const json& job : metrics) {
    for (json rank : job.value("ranks", json::array())) {
      rank["job"] = job.value("name", "");
      rank["epoch"] = job.value("epoch", 0);
      rows.push_back(std::move(rank));
    }
  }
  const json before = align(rows, last.rows, {"job", "epoch", "rank"});
  const std::string table = render_since(rows, before, now, last, kRankColumns, add_lateness);
  return rows.empty() ? "no jobs\n" : table;
}

}  // namespace tally::control
