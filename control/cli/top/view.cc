#include "control/cli/top/view.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "control/cli/common/tables.h"

namespace tally::control::top {
namespace {

using nlohmann::json;

constexpr const char* kStages[] = {"waiting_ns", "queueing_ns", "pulling_ns", "summing_ns",
                                   "pushing_ns"};

// A node's answers now and at the look before, if the same process gave both.
struct Pair {
  const NodeLook& now;
  const NodeLook* before = nullptr;
  double seconds = 0;  // between the two looks
};

Pair pair_of(const NodeLook& now, const Look& before) {
  Pair pair{now};
  for (const NodeLook& one : before.nodes) {
    const bool same = one.name == now.name && one.failure.empty() && now.failure.empty() &&
                      number_at(one.status, "pid") == number_at(now.status, "pid");
    if (!same || one.time >= now.time) continue;
    pair.before = &one;
    pair.seconds = static_cast<double>(now.time - one.time) / kSecond;
  }
  return pair;
}

// How much a counter grew. A counter that restarted from zero has not shrunk.
double grown(const json& now, const json& before, const char* key) {
  return std::max(0.0, number_at(now, key) - number_at(before, key));
}

// The row of a list with the same values under these keys; null when there is none. The search
// begins at `likely`, which is nearly always the right index.
json find_row(const json& rows, const json& like, std::initializer_list<const char*> keys,
              std::size_t likely = 0) {
  if (!rows.is_array()) return nullptr;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const json& row = rows[(likely + i) % rows.size()];
    const auto same = [&](const char* key) {
      return row.is_object() && like.is_object() &&
             row.value(key, json()) == like.value(key, json());
    };
    if (std::all_of(keys.begin(), keys.end(), same)) return row;
  }
  return nullptr;
}

std::string state_of(const NodeLook& node, bool in_cluster) {
  if (!node.failure.empty()) return node.has_left ? "left" : "no answer";
  if (!in_cluster) return "alone";
  return node.member.is_object() ? "member" : "left";
}

json node_row(const Pair& pair, bool in_cluster) {
  const NodeLook& node = pair.now;
  json row = {{"node", node.name},
              {"role", text_at(node.member, "role")},
              {"host", text_at(node.member, "host")},
              {"state", state_of(node, in_cluster)},
              {"address", node.address}};
  if (!node.failure.empty()) {
    row["reason"] = node.failure;
    return row;
  }
  if (node.has_left) row["reason"] = "it answers, and is no member any more";
  for (const char* key : {"shards", "sessions", "jobs"}) row[key] = number_at(node.status, key);
  if (pair.before == nullptr) return row;
  const json now = node.stats.is_object() ? node.stats.value("totals", json()) : json();
  const json before =
      pair.before->stats.is_object() ? pair.before->stats.value("totals", json()) : json();
  row["in_per_s"] = grown(now, before, "bytes_in") / pair.seconds;
  row["out_per_s"] = grown(now, before, "bytes_out") / pair.seconds;
  row["failures_per_s"] = grown(now, before, "failures") / pair.seconds;
  return row;
}

void add_shards(const Pair& pair, json& rows) {
  for (const json& shard : list_at(pair.now.stats, "shards")) {
    json row = {{"node", pair.now.name}, {"shard", number_at(shard, "index")}};
    if (pair.before != nullptr) {
      const json before = find_row(list_at(pair.before->stats, "shards"), shard, {"index"});
      for (const auto& [key, counter] : {std::pair{"in_per_s", "bytes_in"},
                                         {"out_per_s", "bytes_out"},
                                         {"tiles_per_s", "tiles"},
                                         {"completions_per_s", "completions"},
                                         {"failures_per_s", "failures"}}) {
        row[key] = grown(shard, before, counter) / pair.seconds;
      }
    }
    rows.push_back(std::move(row));
  }
}

using JobKey = std::pair<std::string, std::uint64_t>;  // name and epoch

JobKey key_of(const json& job) {
  return {text_at(job, "name"), static_cast<std::uint64_t>(std::max(0.0, number_at(job, "epoch")))};
}

// A job, summed over all nodes that report it.
struct JobSum {
  double ranks = 0, joined = 0, nodes = 0, nodes_seen = 0, outstanding = 0, waiting = 0;
  bool has_rates = false;
  double parts = 0, parts_per_s = 0, bytes_per_s = 0, time = 0, waited = 0;
};

void add_job(const Pair& pair, const json& job, JobSum& sum) {
  sum.ranks = std::max(sum.ranks, number_at(job, "ranks"));
  sum.joined = std::max(sum.joined, number_at(job, "joined"));
  sum.nodes = std::max(sum.nodes, number_at(job, "nodes"));
  sum.nodes_seen += 1;
  sum.outstanding += number_at(job, "parts_outstanding");
  sum.waiting += static_cast<double>(list_at(job, "waiting").size());
  if (pair.before == nullptr) return;
  const json before = find_row(pair.before->jobs, job, {"name", "epoch"});
  const json now_times = job.value("times", json());
  const json times = before.is_object() ? before.value("times", json()) : json();
  sum.has_rates = true;
  const double parts = grown(now_times, times, "parts");
  sum.parts += parts;
  sum.parts_per_s += parts / pair.seconds;
  sum.bytes_per_s += grown(now_times, times, "bytes") / pair.seconds;
  for (const char* stage : kStages) sum.time += grown(now_times, times, stage);
  sum.waited += grown(now_times, times, kStages[0]);
}

json job_row(const JobKey& key, const JobSum& sum) {
  json row = {{"job", key.first},
              {"epoch", key.second},
              {"joined", sum.joined},
              {"ranks", sum.ranks},
              {"nodes", sum.nodes},
              {"nodes_seen", sum.nodes_seen},
              {"outstanding", sum.outstanding},
              {"waiting", sum.waiting}};
  if (!sum.has_rates) return row;
  row["in_per_s"] = sum.bytes_per_s;
  if (sum.ranks > 0) row["goodput_per_s"] = sum.bytes_per_s / sum.ranks;
  row["parts_per_s"] = sum.parts_per_s;
  if (sum.parts > 0 && sum.time > 0) {
    row["us_per_part"] = sum.time / sum.parts / kMicrosecond;
    row["wait_share"] = sum.waited / sum.time;
  }
  return row;
}

// An operation waits at its home shard, so no two nodes report the same operation.
void add_waiting(const NodeLook& node, const json& job, json& rows) {
  for (const json& entry : list_at(job, "waiting")) {
    rows.push_back({{"job", text_at(job, "name")},
                    {"tag", number_at(entry, "tag")},
                    {"round", number_at(entry, "round")},
                    {"seconds", number_at(entry, "seconds")},
                    {"missing", list_at(entry, "missing")},
                    {"node", node.name}});
  }
}

// How often a rank gave the last notice, and how late, since the look before.
struct Straggling {
  double times = 0, lateness = 0, lost_share = 0, waited_for = 0;
};
using RankKey = std::tuple<std::string, std::uint64_t, std::uint64_t>;  // job, epoch, rank

void add_stragglers(const Pair& pair, std::map<RankKey, Straggling>& all) {
  for (const json& job : pair.now.metrics) {
    if (!job.is_object()) continue;
    const json before =
        pair.before == nullptr ? json() : find_row(pair.before->metrics, job, {"name", "epoch"});
    const auto [name, epoch] = key_of(job);
    const json ranks = list_at(job, "ranks"), ranks_before = list_at(before, "ranks");
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const json& rank = ranks[i];
      const json last = find_row(ranks_before, rank, {"rank"}, i);
      Straggling& sum =
          all[{name, epoch, static_cast<std::uint64_t>(std::max(0.0, number_at(rank, "rank")))}];
      sum.waited_for += number_at(rank, "waited_for");
      if (pair.before == nullptr) continue;
      const double lateness = grown(rank, last, "lateness_ns");
      sum.times += grown(rank, last, "times_last");
      sum.lateness += lateness;
      sum.lost_share += lateness / (pair.seconds * kSecond);
    }
  }
}

// The ranks that were last or that are waited for. The rank that costs most comes first.
json straggler_rows(const std::map<RankKey, Straggling>& all) {
  std::map<std::pair<std::string, std::uint64_t>, double> operations;
  for (const auto& [key, sum] : all) {
    operations[{std::get<0>(key), std::get<1>(key)}] += sum.times;
  }
  json rows = json::array();
  for (const auto& [key, sum] : all) {
    if (sum.times <= 0 && sum.waited_for <= 0) continue;
    const auto& [job, epoch, rank] = key;
    json row = {{"job", job},
                {"epoch", epoch},
                {"rank", rank},
                {"times_last", sum.times},
                {"lost_share", sum.lost_share},
                {"waited_for", sum.waited_for}};
    const double of = operations[{job, epoch}];
    if (of > 0) row["last_share"] = sum.times / of;
    if (sum.times > 0) row["late_us"] = sum.lateness / sum.times / kMicrosecond;
    rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const json& a, const json& b) {
    return std::pair(number_at(a, "waited_for"), number_at(a, "lost_share")) >
           std::pair(number_at(b, "waited_for"), number_at(b, "lost_share"));
  });
  return rows;
}

}  // namespace

json top_view(const Look& before, const Look& now) {
  json view = {{"coordinator", now.coordinator}, {"note", now.note},
               {"nodes", json::array()},         {"jobs", json::array()},
               {"waiting", json::array()},       {"stragglers", json::array()},
               {"shards", json::array()}};
  std::map<JobKey, JobSum> jobs;
  std::map<RankKey, Straggling> ranks;
  double seconds = 0;
  for (const NodeLook& node : now.nodes) {
    const Pair pair = pair_of(node, before);
    seconds = std::max(seconds, pair.seconds);
    view["nodes"].push_back(node_row(pair, !now.coordinator.empty()));
    if (!node.failure.empty()) continue;
    add_shards(pair, view["shards"]);
    for (const json& job : node.jobs.is_array() ? node.jobs : json::array()) {
      if (!job.is_object()) continue;
      add_job(pair, job, jobs[key_of(job)]);
      add_waiting(node, job, view["waiting"]);
    }
    add_stragglers(pair, ranks);
  }
  for (const auto& [key, sum] : jobs) view["jobs"].push_back(job_row(key, sum));
  std::stable_sort(view["waiting"].begin(), view["waiting"].end(),
                   [](const json& a, const json& b) {
                     return number_at(a, "seconds") > number_at(b, "seconds");
                   });
  view["stragglers"] = straggler_rows(ranks);
  view["seconds"] = seconds;
  return view;
}

}  // namespace tally::control::top
