#include "perf/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "control/plan/tree.h"
#include "control/tables.h"

namespace tally::perf {
namespace {

using control::list_at;
using control::number_at;
using control::text_at;
using nlohmann::json;

constexpr double kHop = 5e-6;         // seconds, as tallyctl plan check takes it
constexpr double kChunk = 256 << 10;  // bytes, likewise
constexpr double kWithin = 1e15;      // bytes per second inside a machine: never binds
constexpr double kUnknown = 1;        // in the place of a speed that nobody knows

// A node of the job's plan.
struct PlacedNode {
  std::string name;
  std::string host;
  std::string role;
  double speed = 0;
  json job;  // as it tells of it
};

// By tree of the job's plan: the parents of ranks and nodes, and its share of the bytes.
struct PlacedTree {
  plan::Tree tree;
  double share = 0;
};

// The job as its nodes tell of it, the newest forming. Empty where the answers are no plan.
struct PlacedJob {
  std::uint64_t epoch = 0;
  std::uint64_t split_bytes = 0;
  std::size_t trees = 0;
  std::vector<PlacedNode> nodes;
};

json newest(const json& jobs, const std::string& name) {
  json found;
  for (const json& job : jobs.is_array() ? jobs : json::array()) {
    if (text_at(job, "name") == name && number_at(job, "epoch") >= number_at(found, "epoch")) {
      found = job;
    }
  }
  return found;
}

// The trees that the node is in, by number, each with its place: of stars nothing is said of that.
std::vector<std::pair<std::size_t, json>> places_of(const json& job) {
  std::vector<std::pair<std::size_t, json>> places;
  const json trees = list_at(job, "trees"), vertices = list_at(job, "vertices");
  for (std::size_t i = 0; i < trees.size(); ++i) {
    if (!trees[i].is_number_unsigned()) continue;
    places.emplace_back(trees[i].get<std::size_t>(), i < vertices.size() ? vertices[i] : json());
  }
  return places;
}

double share_of(const json& job, std::size_t tree) {
  const json weights = list_at(job, "weights");
  const bool known = tree < weights.size() && weights[tree].is_number();
  return known ? weights[tree].get<double>() / plan::kWeightUnit : 0;
}

// Of those that have their root there.
double share_of(const json& job) {
  double share = 0;
  for (const auto& [tree, place] : places_of(job)) {
    if (text_at(place, "above").empty()) share += share_of(job, tree);
  }
  return share;
}

PlacedJob placed_job(const PlanFacts& facts) {
  PlacedJob placed;
  for (std::size_t i = 0; i < facts.jobs.size() && i < facts.members.size(); ++i) {
    const json job = newest(facts.jobs[i], facts.job);
    const auto epoch = static_cast<std::uint64_t>(std::max(0.0, number_at(job, "epoch")));
    if (!job.is_object() || epoch < placed.epoch) continue;
    if (epoch > placed.epoch) placed = {.epoch = epoch, .nodes = {}};
    const json& member = facts.members[i];
    placed.split_bytes = static_cast<std::uint64_t>(std::max(0.0, number_at(job, "split_bytes")));
    placed.trees = list_at(job, "weights").size();
    placed.nodes.push_back({text_at(member, "name"), text_at(member, "host"),
                            text_at(member, "role"), number_at(member, "speed"), job});
  }
  return placed;
}

// Why the job's nodes do not tell of a whole plan; empty where they do.
std::string why_not_whole(const PlanFacts& facts, const PlacedJob& job) {
  double shares = 0;
  for (const PlacedNode& node : job.nodes) shares += share_of(node.job);
  if (job.trees > 0 && shares > 1 - 1e-9 && shares < 1 + 1e-9) return {};
  std::string silent;
  for (std::size_t i = 0; i < facts.jobs.size() && i < facts.members.size(); ++i) {
    if (facts.jobs[i].is_array()) continue;
    silent += (silent.empty() ? "" : ", ") + text_at(facts.members[i], "name");
  }
  if (!silent.empty()) return fmt::format("of its nodes {} gave no answer: is it running?", silent);
  return fmt::format(
      "its nodes tell of {:.0f} % of its plan (epoch {}, {} nodes): it is changing just now, or "
      "one of them is older than this tally-perf",
      100 * shares, job.epoch, job.nodes.size());
}

// Machines joined by their NICs to a switch that never binds; within a machine nothing does.
class Layout {
 public:
  Layout(const PlanFacts& facts, const PlacedJob& job) : file_(facts.network) {
    for (const json& member : facts.members) names_[text_at(member, "host")].push_back(member);
    for (const std::string& host : facts.rank_hosts) machine_of(host);
    for (const PlacedNode& node : job.nodes) machine_of(node.host);
    const std::size_t ranks = facts.rank_hosts.size();
    const auto first_switch = static_cast<plan::VertexId>(ranks + job.nodes.size());
    for (std::size_t i = 0; i < ranks; ++i) {
      add(plan::Role::kWorker, fmt::format("rank {}", i), {});
    }
    for (const PlacedNode& node : job.nodes) add(plan::Role::kHelper, node.name, sum_of(node));
    const auto core = static_cast<plan::VertexId>(first_switch + hosts_.size());
    for (const std::string& host : hosts_) add(plan::Role::kSwitch, host, {});
    add(plan::Role::kSwitch, "core", {});
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      const auto here = static_cast<plan::VertexId>(first_switch + i);
      const plan::Machine nic = nic_of(hosts_[i]);
      join(here, core, nic.out);
      join(core, here, nic.in);
    }
    for (std::size_t i = 0; i < ranks + job.nodes.size(); ++i) {
      const std::string& host = i < ranks ? facts.rank_hosts[i] : job.nodes[i - ranks].host;
      const auto there = static_cast<plan::VertexId>(first_switch + machine_of(host));
      const auto here = static_cast<plan::VertexId>(i);
      join(here, there, kWithin);
      join(there, here, kWithin);
    }
  }

  const plan::Network& network() const { return network_; }
  const std::string& host(std::size_t machine) const { return hosts_[machine]; }
  std::size_t machines() const { return hosts_.size(); }
  // Out of and into machine i are the links 2 i and 2 i + 1.
  bool is_known(std::size_t link) const { return known_[link]; }

 private:
  std::size_t machine_of(const std::string& host) {
    const auto found = std::find(hosts_.begin(), hosts_.end(), host);
    if (found != hosts_.end()) return static_cast<std::size_t>(found - hosts_.begin());
    hosts_.push_back(host);
    return hosts_.size() - 1;
  }
  void add(plan::Role role, std::string name, std::optional<double> sum) {
    plan::Vertex vertex{.role = role, .name = std::move(name), .rack = {}, .sum = sum};
    if (role != plan::Role::kSwitch) vertex.in = vertex.out = kWithin;
    network_.vertices.push_back(std::move(vertex));
  }
  void join(plan::VertexId from, plan::VertexId to, double capacity) {
    known_.push_back(capacity > 0);
    network_.links.push_back({from, to, capacity > 0 ? capacity : kUnknown});
  }
  const plan::Machine* in_file(const std::string& name) const {
    const auto found = std::find_if(file_.machines.begin(), file_.machines.end(),
                                    [&](const auto& one) { return one.name == name; });
    return found == file_.machines.end() ? nullptr : &*found;
  }
  // Of the file by the name of the host or of a node there; else what a node there declares.
  plan::Machine nic_of(const std::string& host) const {
    plan::Machine nic;
    const auto take = [&](const std::string& name) {
      if (const plan::Machine* one = in_file(name)) {
        nic.in = one->in > 0 ? one->in : one->nic;
        nic.out = one->out > 0 ? one->out : one->nic;
      }
    };
    take(host);
    const auto here = names_.find(host);
    if (here == names_.end()) return nic;
    for (const json& member : here->second) {
      if (nic.in == 0 || nic.out == 0) take(text_at(member, "name"));
    }
    for (const json& member : here->second) {
      if (nic.in == 0) nic.in = number_at(member, "speed");
      if (nic.out == 0) nic.out = number_at(member, "speed");
    }
    return nic;
  }
  std::optional<double> sum_of(const PlacedNode& node) const {
    const plan::Machine* one = in_file(node.name);
    return one != nullptr && one->sum > 0 ? std::optional(one->sum) : std::nullopt;
  }

  const plan::MachineFile& file_;
  std::map<std::string, std::vector<json>> names_;  // members by host
  std::vector<std::string> hosts_;
  plan::Network network_;
  std::vector<bool> known_;  // by link
};

// Where nobody says it, on the machines of the nodes whose role says so, one on each.
bool place_ranks(PlanFacts& facts) {
  const auto is_said = [](const std::string& host) { return !host.empty(); };
  if (facts.rank_hosts.size() == facts.ranks &&
      std::all_of(facts.rank_hosts.begin(), facts.rank_hosts.end(), is_said)) {
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

// The ranks that are a vertex's children there; of a star all.
void place_children(const json& place, std::size_t ranks, std::int32_t node, plan::Parents& up) {
  if (!place.is_object()) std::fill_n(up.begin(), ranks, node);
  for (const json& run : list_at(place, "ranks")) {
    const bool is_run = run.is_array() && run.size() == 2 && run[0].is_number_unsigned() &&
                        run[1].is_number_unsigned();
    const std::uint64_t first = is_run ? run[0].get<std::uint64_t>() : ranks;
    const std::uint64_t end = is_run ? std::min(first + run[1].get<std::uint64_t>(), ranks) : 0;
    for (std::uint64_t rank = first; rank < end; ++rank) up[rank] = node;
  }
}

// Ranks, then nodes. None where what the nodes say makes no trees.
std::vector<PlacedTree> trees_of(const PlacedJob& job, std::size_t ranks) {
  std::vector<PlacedTree> trees(job.trees);
  for (PlacedTree& one : trees) one.tree.up.assign(ranks + job.nodes.size(), plan::kIsAbsent);
  for (std::size_t i = 0; i < job.nodes.size(); ++i) {
    const auto node = static_cast<std::int32_t>(ranks + i);
    for (const auto& [number, place] : places_of(job.nodes[i].job)) {
      if (number >= trees.size()) continue;
      PlacedTree& one = trees[number];
      one.share = share_of(job.nodes[i].job, number);
      const std::string above = text_at(place, "above");
      const auto parent = std::find_if(job.nodes.begin(), job.nodes.end(),
                                       [&](const auto& other) { return other.name == above; });
      one.tree.up[ranks + i] =
          above.empty() ? plan::kIsRoot
                        : static_cast<std::int32_t>(
                              ranks + static_cast<std::size_t>(parent - job.nodes.begin()));
      place_children(place, ranks, node, one.tree.up);
    }
  }
  std::erase_if(trees, [](const PlacedTree& one) { return one.share <= 0; });
  const bool whole = std::all_of(trees.begin(), trees.end(), [](const PlacedTree& one) {
    return plan::Shape::of(one.tree.up, "up").ok();
  });
  return whole ? trees : std::vector<PlacedTree>{};
}

std::vector<LinkLoad> links_of(const Layout& layout, const plan::ClassLoad& load, bool has_time) {
  std::vector<LinkLoad> links;
  const auto add = [&](std::string what, const plan::Load& one, bool is_known) {
    if (one.bytes <= 0) return;
    links.push_back({std::move(what), is_known ? one.capacity : 0, one.bytes,
                     has_time && load.tau > 0 ? one.seconds() / load.tau : 0});
  };
  for (std::size_t machine = 0; machine < layout.machines(); ++machine) {
    const std::size_t out = 2 * machine, in = out + 1;
    add("out of " + layout.host(machine), load.loads[out], layout.is_known(out));
    add("into " + layout.host(machine), load.loads[in], layout.is_known(in));
  }
  for (const plan::Load& one : load.loads) {
    if (one.passage == plan::Passage::kSum) add(plan::describe(one, layout.network()), one, true);
  }
  std::stable_sort(links.begin(), links.end(), [](const LinkLoad& a, const LinkLoad& b) {
    return std::pair(a.busy, a.bytes) > std::pair(b.busy, b.bytes);
  });
  return links;
}

// The hosts whose NIC carries something and has no speed.
std::string unknown_hosts(const Layout& layout, const plan::ClassLoad& load) {
  std::string hosts;
  for (std::size_t machine = 0; machine < layout.machines(); ++machine) {
    const std::size_t out = 2 * machine, in = out + 1;
    const bool matters = load.loads[out].bytes > 0 || load.loads[in].bytes > 0;
    if (!matters || (layout.is_known(out) && layout.is_known(in))) continue;
    hosts += (hosts.empty() ? "" : ", ") + layout.host(machine);
  }
  return hosts;
}

}  // namespace

double Prediction::seconds(std::uint64_t bytes) const {
  return plan::predicted_seconds(load, static_cast<double>(bytes), kChunk, kHop);
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
  const Layout layout(facts, job);
  plan::Routes routes(layout.network());
  std::vector<plan::Tree> trees;
  std::vector<double> of_bytes;
  for (PlacedTree& one : trees_of(job, facts.rank_hosts.size())) {
    // The copies of a tree at a node's shards are one.
    const auto same = std::find_if(trees.begin(), trees.end(), [&](const plan::Tree& other) {
      return other.up == one.tree.up;
    });
    if (same != trees.end()) {
      of_bytes[static_cast<std::size_t>(same - trees.begin())] += one.share;
      continue;
    }
    trees.push_back(std::move(one.tree));
    of_bytes.push_back(one.share);
  }
  if (trees.empty()) {
    prediction.why_none = "what its nodes say of their places in its trees makes no trees";
    return prediction;
  }
  prediction.load = plan::evaluate(routes, trees, of_bytes);
  const std::string unknown = unknown_hosts(layout, prediction.load);
  if (!unknown.empty()) {
    prediction.why_none = fmt::format(
        "the speed of the NIC of {} is not known: cluster.speed of the node there, or --network "
        "with the file of tallyctl probe --out",
        unknown);
  }
  prediction.links = links_of(layout, prediction.load, unknown.empty());
  const bool is_within = prediction.links.empty();
  if (is_within) prediction.why_none = "all of it is on one machine: no network carries anything";
  if (prediction.why_none.empty()) prediction.binds = prediction.links.front().what;
  return prediction;
}

}  // namespace tally::perf
