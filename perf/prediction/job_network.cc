#include "perf/prediction/job_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "control/cli/common/tables.h"
#include "control/plan/model/load.h"

namespace tally::perf {
namespace {

using control::number_at;
using control::text_at;
using nlohmann::json;
using plan::VertexId;

constexpr double kWithin = 1e15;  // bytes per second inside a machine: never the limit
constexpr double kUnknown = 1;    // stands for a speed that is not known

VertexId id_of(std::size_t place) {
  return static_cast<VertexId>(place);
}

// The machines with the links between them, and the machines of the job's ranks and nodes.
struct Ground {
  plan::Network base;  // speeds of 0 are not known
  // By machine: its possible names in a file of speeds. The first that the file has counts.
  std::vector<std::vector<std::string>> names;
  std::vector<VertexId> at;  // by rank, then node
};

Ground hosts_of(const PlanFacts& facts, const PlacedJob& job) {
  Ground ground;
  std::vector<plan::Vertex> hosts;
  const auto place = [&](const std::string& host) {
    const auto found = std::find_if(hosts.begin(), hosts.end(),
                                    [&](const plan::Vertex& one) { return one.name == host; });
    ground.at.push_back(id_of(static_cast<std::size_t>(found - hosts.begin())));
    if (found != hosts.end()) return;
    plan::Vertex machine{.role = plan::Role::kHelper, .name = host, .rack = {}, .sum = {}};
    ground.names.push_back({host});
    for (const json& member : facts.members) {
      if (text_at(member, "host") != host) continue;
      ground.names.back().push_back(text_at(member, "name"));
      if (machine.in == 0) machine.in = machine.out = number_at(member, "speed");
    }
    hosts.push_back(std::move(machine));
  };
  for (const std::string& host : facts.rank_hosts) place(host);
  for (const PlacedNode& node : job.nodes) place(node.host);
  ground.base = plan::star_network(std::move(hosts));
  return ground;
}

// The machines of a plan file.
class FileMachines {
 public:
  FileMachines(const plan::Network& plan, const json& members) : plan_(plan) {
    std::map<std::string, std::string> hosts;  // by name of a node
    for (const json& member : members) hosts[text_at(member, "name")] = text_at(member, "host");
    for (std::size_t id = 0; id < plan.machines(); ++id) {
      const std::string& name = plan.vertices[id].name;
      const auto found = name.empty() ? hosts.end() : hosts.find(name);
      names_.push_back({name});
      if (found != hosts.end()) names_.back().push_back(found->second);
    }
  }

  const std::vector<std::vector<std::string>>& names() const { return names_; }

  std::optional<VertexId> of_node(const PlacedNode& node) const {
    for (std::size_t id = 0; id < names_.size(); ++id) {
      if (names_[id].front() == node.name) return id_of(id);
    }
    return on_host(node.host);
  }

  // The only worker on the host; without workers, the only machine.
  std::optional<VertexId> on_host(const std::string& host) const {
    std::vector<VertexId> workers, machines;
    for (std::size_t id = 0; id < names_.size() && !host.empty(); ++id) {
      if (std::find(names_[id].begin(), names_[id].end(), host) == names_[id].end()) continue;
      machines.push_back(id_of(id));
      if (plan_.vertices[id].role == plan::Role::kWorker) workers.push_back(id_of(id));
    }
    const auto& found = workers.empty() ? machines : workers;
    return found.size() == 1 ? std::optional(found.front()) : std::nullopt;
  }

 private:
  const plan::Network& plan_;
  std::vector<std::vector<std::string>> names_;  // by machine: its name, then the host of its node
};

Error at_none(const std::string& participant, const std::string& host) {
  return Error{Status::kInvalidArgument,
               fmt::format("{} is at none of its machines: neither one of that name is there, nor "
                           "just one whose name or whose node's host is \"{}\"",
                           participant, host)};
}

}  // namespace

class JobNetwork::Builder {
 public:
  Builder(const PlanFacts& facts, const PlacedJob& job, const Ground& ground)
      : speeds_(facts.file.speeds), job_(job), ground_(ground), base_(ground.base) {}

  JobNetwork run() {
    const std::size_t ranks = ground_.at.size() - job_.nodes.size();
    for (std::size_t i = 0; i < ranks; ++i) add_leaf(plan::Role::kWorker, "", {});
    for (std::size_t i = 0; i < job_.nodes.size(); ++i) {
      const std::string& name = job_.nodes[i].name;
      add_leaf(plan::Role::kHelper, name, sum_of(name, base_.vertices[ground_.at[ranks + i]]));
    }
    add_places();
    find_only_links();
    for (std::size_t i = 0; i < ground_.at.size(); ++i) {
      const Place& place = places_[ground_.at[i]];
      join(id_of(i), place.from, kWithin);
      join(place.to, id_of(i), kWithin);
    }
    for (std::size_t id = 0; id < base_.machines(); ++id) add_machine(id);
    for (std::size_t i = 0; i < base_.links.size(); ++i) add_link(i);
    return std::move(made_);
  }

 private:
  // The vertices of a machine. What leaves it gathers at `from`, and is past its NIC at `out`. What
  // arrives is at `in`, and is past its NIC at `to`. So nothing that has arrived at a machine goes
  // on from there. A switch has one vertex.
  struct Place {
    VertexId from = 0, out = 0, in = 0, to = 0;
  };
  static constexpr std::size_t kNone = SIZE_MAX;

  void add_leaf(plan::Role role, std::string name, std::optional<double> sum) {
    plan::Vertex leaf{.role = role, .name = std::move(name), .rack = {}, .sum = sum};
    leaf.in = leaf.out = kWithin;
    made_.network_.vertices.push_back(std::move(leaf));
  }
  VertexId add_switch() {
    made_.network_.vertices.push_back(plan::Vertex{.role = plan::Role::kSwitch});
    return id_of(made_.network_.vertices.size() - 1);
  }
  // Adds the vertices in the order of the ids, so that of several routes the same one is taken.
  void add_places() {
    for (std::size_t id = 0; id < base_.vertices.size(); ++id) {
      Place place;
      place.from = place.out = place.in = place.to = add_switch();
      if (id < base_.machines()) {
        place.out = add_switch();
        place.in = add_switch();
        place.to = add_switch();
      }
      places_.push_back(place);
    }
  }
  void join(VertexId from, VertexId to, double capacity) {
    made_.network_.links.push_back({from, to, capacity});
  }

  // Finds the links that stand for a NIC: the only link of a machine, when a switch is at its other
  // end.
  void find_only_links() {
    const std::size_t machines = base_.machines();
    std::vector<std::size_t> counts_out(machines), counts_in(machines);
    only_out_.assign(machines, kNone);
    only_in_.assign(machines, kNone);
    for (std::size_t i = 0; i < base_.links.size(); ++i) {
      const plan::Link& link = base_.links[i];
      const bool from_machine = link.from < machines, to_machine = link.to < machines;
      if (from_machine && ++counts_out[link.from] == 1 && !to_machine) only_out_[link.from] = i;
      if (to_machine && ++counts_in[link.to] == 1 && !from_machine) only_in_[link.to] = i;
    }
    for (std::size_t id = 0; id < machines; ++id) {
      if (counts_out[id] > 1) only_out_[id] = kNone;
      if (counts_in[id] > 1) only_in_[id] = kNone;
    }
  }

  void add_machine(std::size_t id) {
    const Place& place = places_[id];
    const std::string name = base_.name_of(id_of(id));
    double in = 0, out = 0;
    for (const std::string& alias : ground_.names[id]) {
      const plan::Machine* one = in_file(alias);
      if (one == nullptr) continue;
      if (in == 0) in = one->in > 0 ? one->in : one->nic;
      if (out == 0) out = one->out > 0 ? one->out : one->nic;
    }
    if (out == 0) out = capacity_of(only_out_[id], base_.vertices[id].out);
    if (in == 0) in = capacity_of(only_in_[id], base_.vertices[id].in);
    join(place.from, place.to, kWithin);
    add_nic("out of " + name, name, place.from, place.out, out);
    add_nic("into " + name, name, place.in, place.to, in);
  }
  double capacity_of(std::size_t only_link, double nic) const {
    return only_link == kNone ? nic : base_.links[only_link].capacity;
  }
  void add_nic(std::string what, const std::string& machine, VertexId from, VertexId to,
               double speed) {
    made_.parts_.push_back({made_.network_.links.size(), std::move(what), machine, speed > 0});
    join(from, to, speed > 0 ? speed : kUnknown);
  }
  void add_link(std::size_t index) {
    const plan::Link& link = base_.links[index];
    const std::size_t machines = base_.machines();
    const bool is_nic = (link.from < machines && only_out_[link.from] == index) ||
                        (link.to < machines && only_in_[link.to] == index);
    if (!is_nic) {
      const plan::Load named{plan::Passage::kLink, link.from, link.to};
      made_.parts_.push_back({made_.network_.links.size(), plan::describe(named, base_), "", true});
    }
    join(places_[link.from].out, places_[link.to].in, is_nic ? kWithin : link.capacity);
  }

  const plan::Machine* in_file(const std::string& name) const {
    const auto found = std::find_if(speeds_.machines.begin(), speeds_.machines.end(),
                                    [&](const auto& one) { return one.name == name; });
    return found == speeds_.machines.end() ? nullptr : &*found;
  }
  std::optional<double> sum_of(const std::string& node, const plan::Vertex& machine) const {
    const plan::Machine* one = in_file(node);
    if (one != nullptr && one->sum > 0) return one->sum;
    return machine.name == node ? machine.sum : std::nullopt;
  }

  const plan::MachineFile& speeds_;
  const PlacedJob& job_;
  const Ground& ground_;
  const plan::Network& base_;
  std::vector<Place> places_;                    // by vertex of the base
  std::vector<std::size_t> only_out_, only_in_;  // by machine: a link of the base, or kNone
  JobNetwork made_;
};

JobNetwork JobNetwork::of_nics(const PlanFacts& facts, const PlacedJob& job) {
  return Builder(facts, job, hosts_of(facts, job)).run();
}

Result<JobNetwork> JobNetwork::of_plan(const plan::Network& plan, const PlanFacts& facts,
                                       const PlacedJob& job) {
  const FileMachines machines(plan, facts.members);
  Ground ground{.base = plan, .names = machines.names(), .at = {}};
  for (std::size_t rank = 0; rank < facts.rank_hosts.size(); ++rank) {
    const std::string& host = facts.rank_hosts[rank];
    const auto at = machines.on_host(host);
    if (!at) return at_none(fmt::format("rank {}", rank), host);
    ground.at.push_back(*at);
  }
  for (const PlacedNode& node : job.nodes) {
    const auto at = machines.of_node(node);
    if (!at) return at_none(fmt::format("node \"{}\"", node.name), node.host);
    ground.at.push_back(*at);
  }
  return Builder(facts, job, ground).run();
}

}  // namespace tally::perf
