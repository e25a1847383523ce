#include "perf/prediction/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "control/cli/common/tables.h"
#include "control/cli/plan/plan_remote.h"
#include "perf/prediction/job_network.h"
#include "perf/prediction/placed_job.h"

namespace tally::perf {
namespace {

using control::text_at;
using nlohmann::json;

constexpr double kHop = 5e-6;  // seconds, the value of tallyctl plan check

// When the hosts of the ranks are not known, places one rank on each machine with a node of role
// worker. Returns whether all ranks have a host.
bool place_ranks(PlanFacts& facts) {
  const auto is_known = [](const std::string& host) { return !host.empty(); };
  if (facts.rank_hosts.size() == facts.ranks &&
      std::all_of(facts.rank_hosts.begin(), facts.rank_hosts.end(), is_known)) {
    return true;
  }
  facts.rank_hosts.clear();
  std::set<std::string> hosts;
  for (const json& member : facts.members) {
    if (text_at(member, "role") == "worker") hosts.insert(text_at(member, "host"));
  }
  facts.rank_hosts.assign(hosts.begin(), hosts.end());
  return facts.rank_hosts.size() == facts.ranks;
}

// Uses the links of the given plan, or else those of the file from which the job's plan comes. When
// these do not show where the job is, uses NICs alone, and `note` has the reason.
Result<JobNetwork> network_of(const PlanFacts& facts, const PlacedJob& job, std::string& note) {
  if (facts.file.network) return JobNetwork::of_plan(*facts.file.network, facts, job);
  if (text_at(facts.shown, "source") != "file") return JobNetwork::of_nics(facts, job);
  const auto plan = control::plan_shown(facts.shown);
  auto network = plan ? JobNetwork::of_plan(plan->network, facts, job) : plan.error();
  if (network) return network;
  note = "by NICs alone, without the links of the plan in force: " + network.error().message;
  return JobNetwork::of_nics(facts, job);
}

// Sets the chunks of operations that are divided over all trees, when the plan is known.
void set_chunk(const json& shown, Prediction& prediction) {
  const auto plan = control::plan_shown(shown);
  if (!plan) return;
  const std::string name = text_at(shown, "domain");
  for (const plan::Domain& domain : plan->domains) {
    if (!name.empty() && domain.name != name) continue;
    prediction.chunk = static_cast<double>(domain.classes.back().chunk);
    return;
  }
}

// Names two vertices that must exchange bytes and have no route between them; empty when there are
// none.
std::string gap_in(plan::Routes& routes, const std::vector<plan::Tree>& trees) {
  for (const plan::Tree& tree : trees) {
    for (plan::VertexId child = 0; child < tree.up.size(); ++child) {
      if (tree.up[child] < 0) continue;
      const auto parent = static_cast<plan::VertexId>(tree.up[child]);
      if (routes.has(child, parent) && routes.has(parent, child)) continue;
      return fmt::format("{} and {}", routes.network().name_of(child),
                         routes.network().name_of(parent));
    }
  }
  return {};
}

std::vector<LinkLoad> links_of(const JobNetwork& network, const plan::ClassLoad& load,
                               bool has_time) {
  std::vector<LinkLoad> links;
  const auto add = [&](std::string what, const plan::Load& one, bool is_known) {
    if (one.bytes <= 0) return;
    links.push_back({std::move(what), is_known ? one.capacity : 0, one.bytes,
                     has_time && load.tau > 0 ? one.seconds() / load.tau : 0});
  };
  for (const JobNetwork::Part& part : network.parts()) {
    add(part.what, load.loads[part.link], part.is_known);
  }
  for (const plan::Load& one : load.loads) {
    if (one.passage == plan::Passage::kSum) add(plan::describe(one, network.network()), one, true);
  }
  std::stable_sort(links.begin(), links.end(), [](const LinkLoad& a, const LinkLoad& b) {
    return std::pair(a.busy, a.bytes) > std::pair(b.busy, b.bytes);
  });
  return links;
}

// The machines whose NIC carries bytes and has no known speed.
std::string unknown_machines(const JobNetwork& network, const plan::ClassLoad& load) {
  std::string machines, last;
  for (const JobNetwork::Part& part : network.parts()) {
    if (part.is_known || load.loads[part.link].bytes <= 0 || part.machine == last) continue;
    machines += (machines.empty() ? "" : ", ") + part.machine;
    last = part.machine;
  }
  return machines;
}

// Computes the load of the network. Sets `why_none` when no time follows from it.
void set_loads(const JobNetwork& network, const PlacedTrees& placed, Prediction& prediction) {
  plan::Routes routes(network.network());
  if (const std::string gap = gap_in(routes, placed.trees); !gap.empty()) {
    prediction.why_none = fmt::format("the plan's network has no way between {}", gap);
    return;
  }
  prediction.load = plan::evaluate(routes, placed.trees, placed.shares);
  const std::string unknown = unknown_machines(network, prediction.load);
  if (!unknown.empty()) {
    prediction.why_none = fmt::format(
        "the speed of the NIC of {} is not known: cluster.speed of the node there, or --network "
        "with the file of tallyctl probe --out",
        unknown);
  }
  prediction.links = links_of(network, prediction.load, unknown.empty());
  const bool is_within = prediction.links.empty();
  if (is_within) prediction.why_none = "all of it is on one machine: no network carries anything";
  if (prediction.why_none.empty()) prediction.binds = prediction.links.front().what;
}

}  // namespace

double Prediction::seconds(std::uint64_t bytes) const {
  return plan::predicted_seconds(load, static_cast<double>(bytes), chunk, kHop);
}

Prediction predict(const PlanFacts& given) {
  PlanFacts facts = given;
  Prediction prediction;
  const PlacedJob job = placed_job(facts);
  if (!facts.members.is_array() || facts.members.empty()) {
    prediction.why_none = "the node stands alone: there is no plan over several";
    return prediction;
  }
  prediction.why_none = why_not_whole(facts, job);
  if (!prediction.why_none.empty()) return prediction;
  prediction.epoch = job.epoch;
  prediction.nodes = job.nodes.size();
  prediction.trees = job.trees;
  prediction.split_bytes = job.split_bytes;
  if (!place_ranks(facts)) {
    prediction.why_none =
        "where the ranks are is not known: give cluster.role = \"worker\" to the nodes on their "
        "machines, or start them with --serve and --join";
    return prediction;
  }
  const PlacedTrees placed = trees_of(job, facts.rank_hosts.size());
  if (placed.trees.empty()) {
    prediction.why_none = "the positions that its nodes report do not form trees";
    return prediction;
  }
  set_chunk(facts.shown, prediction);
  const auto network = network_of(facts, job, prediction.note);
  if (network) {
    set_loads(*network, placed, prediction);
  } else {
    prediction.why_none = "--network: " + network.error().message;
  }
  return prediction;
}

}  // namespace tally::perf
