#include "control/plan/advice/changes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "control/plan/model/validate.h"
#include "control/plan/packing/places/symmetry.h"

namespace tally::plan {
namespace {

// The network with speeds that are nearly equal made equal: what is measured at alike places
// differs a little.
Network with_even_speeds(const Network& network) {
  constexpr double kNearly = 1.1;
  Network even = network;
  std::map<std::pair<Role, bool>, std::vector<double*>>
      alike;  // key: the role, and whether it is a speed of sums
  for (Vertex& vertex : even.vertices) {
    auto& nics = alike[{vertex.role, false}];
    nics.insert(nics.end(), {&vertex.in, &vertex.out});
    if (vertex.sum) alike[{vertex.role, true}].push_back(&*vertex.sum);
  }
  for (Link& link : even.links) {
    const Role from = even.vertices[link.from].role;
    const Role role = from == Role::kSwitch ? even.vertices[link.to].role : from;
    alike[{role, false}].push_back(&link.capacity);
  }
  for (auto& [kind, speeds] : alike) {
    std::sort(speeds.begin(), speeds.end(),
              [](const double* a, const double* b) { return *a < *b; });
    double least = 0;
    for (double* speed : speeds) {
      if (*speed > kNearly * least) least = *speed;
      *speed = least;
    }
  }
  return even;
}

// By vertex: a number that vertices have in common if they can change places.
std::vector<std::size_t> kinds_of_vertices(const Network& network, const Symmetry& symmetry) {
  std::vector<std::size_t> kinds(network.vertices.size());
  for (std::size_t id = 0; id < kinds.size(); ++id) kinds[id] = symmetry.sets.size() + id;
  for (const Rack& rack : symmetry.racks) {
    if (rack.hub) kinds[*rack.hub] = rack.set;
  }
  return kinds;
}

// By machine: its kind, in the same sense.
std::vector<std::pair<std::size_t, std::size_t>> kinds_of_machines(const Symmetry& symmetry) {
  std::vector<std::pair<std::size_t, std::size_t>> kinds(symmetry.group_of.size());
  for (const Rack& rack : symmetry.racks) {
    for (std::size_t place = 0; place < rack.groups.size(); ++place) {
      for (const VertexId id : symmetry.groups[rack.groups[place]].machines) {
        kinds[id] = {rack.set, place};
      }
    }
  }
  return kinds;
}

// The links between two vertices, both ways.
struct Cable {
  std::vector<std::uint32_t> links;
  VertexId one = 0;
  VertexId other = 0;
  double there = 0;  // from `one` to `other`; 0: no link
  double back = 0;
};

// The cables between switches, and those between machines.
std::vector<Cable> cables_of(const Network& network) {
  std::map<std::pair<VertexId, VertexId>, Cable> cables;
  for (std::uint32_t i = 0; i < network.links.size(); ++i) {
    const auto& [from, to, capacity] = network.links[i];
    const bool is_switch = network.vertices[from].role == Role::kSwitch;
    if (is_switch != (network.vertices[to].role == Role::kSwitch)) continue;
    Cable& cable = cables[std::minmax(from, to)];
    cable.links.push_back(i);
    std::tie(cable.one, cable.other) = std::minmax(from, to);
    (from < to ? cable.there : cable.back) = capacity;
  }
  std::vector<Cable> list;
  for (auto& [ends, cable] : cables) list.push_back(std::move(cable));
  return list;
}

void add_links(const Network& network, const Symmetry& symmetry, std::vector<Upgrade>& upgrades) {
  const auto kinds = kinds_of_vertices(network, symmetry);
  // By the kinds of the two ends, and the speeds from the first to the second and back.
  std::map<std::tuple<std::size_t, std::size_t, double, double>, std::vector<Cable>> alike;
  for (Cable& cable : cables_of(network)) {
    auto key = std::tuple(kinds[cable.one], kinds[cable.other], cable.there, cable.back);
    const auto turned = std::tuple(kinds[cable.other], kinds[cable.one], cable.back, cable.there);
    alike[std::min(key, turned)].push_back(std::move(cable));
  }
  for (const auto& [key, cables] : alike) {
    Upgrade all{UpgradeKind::kLinks, {}, {}, cables.size(), cables.size()};
    for (const Cable& cable : cables) {
      all.links.insert(all.links.end(), cable.links.begin(), cable.links.end());
    }
    upgrades.push_back(std::move(all));
    if (cables.size() < 2) continue;
    upgrades.push_back({UpgradeKind::kLinks, cables.front().links, {}, 1, cables.size()});
  }
}

// Adds the machines with equal `key`s together, and one machine of each kind alone. Machines
// without a key are left out.
template <typename Key>
void add_machines(UpgradeKind kind, std::size_t machines, const Symmetry& symmetry, Key key_of,
                  std::vector<Upgrade>& upgrades) {
  const auto kinds = kinds_of_machines(symmetry);
  std::map<std::tuple<bool, double, double>, std::vector<VertexId>> equal;
  for (VertexId id = 0; id < machines; ++id) {
    if (const auto key = key_of(id)) equal[*key].push_back(id);
  }
  for (const auto& [key, members] : equal) {
    upgrades.push_back({kind, {}, members, members.size(), members.size()});
    if (members.size() < 2) continue;
    std::map<std::pair<std::size_t, std::size_t>, std::vector<VertexId>> alike;
    for (const VertexId id : members) alike[kinds[id]].push_back(id);
    for (const auto& [one, same] : alike) {
      upgrades.push_back({kind, {}, {same.front()}, 1, same.size()});
    }
  }
}

std::vector<bool> mark(const Network& network, std::span<const VertexId> machines) {
  std::vector<bool> is_marked(network.vertices.size(), false);
  for (const VertexId id : machines) is_marked[id] = true;
  return is_marked;
}

}  // namespace

std::vector<HelperPlace> helper_places(Routes& routes, const std::vector<bool>& is_worker) {
  const Network& network = routes.network();
  const auto kinds = kinds_of_vertices(network, find_symmetry(routes, is_worker));
  std::vector<HelperPlace> places;
  std::map<std::size_t, std::size_t> known;  // the index of each kind's place
  for (auto id = static_cast<VertexId>(network.machines()); id < kinds.size(); ++id) {
    const auto [at, is_new] = known.emplace(kinds[id], places.size());
    if (is_new) {
      places.push_back({id, 1});
    } else {
      ++places[at->second].alike;
    }
  }
  return places;
}

Network with_helper(const Network& network, VertexId at, const Vertex& helper) {
  Network result = network;
  const auto id = static_cast<VertexId>(network.machines());
  result.vertices.insert(result.vertices.begin() + id, helper);
  result.vertices[id].rack = network.vertices[at].rack;
  for (Link& link : result.links) {
    if (link.from >= id) ++link.from;
    if (link.to >= id) ++link.to;
  }
  result.links.push_back({id, at + 1, helper.out});
  result.links.push_back({at + 1, id, helper.in});
  return result;
}

std::vector<Upgrade> possible_upgrades(const Network& measured,
                                       const std::vector<bool>& is_worker) {
  using Key = std::optional<std::tuple<bool, double, double>>;
  const Network network = with_even_speeds(measured);
  Routes routes(network);
  const Symmetry symmetry = find_symmetry(routes, is_worker);
  std::vector<Upgrade> upgrades;
  add_links(network, symmetry, upgrades);
  const auto nic = [&](VertexId id) -> Key {
    return {{is_worker[id], network.vertices[id].in, network.vertices[id].out}};
  };
  add_machines(UpgradeKind::kNics, is_worker.size(), symmetry, nic, upgrades);
  const auto sum = [&](VertexId id) -> Key {
    const auto& speed = network.vertices[id].sum;
    return speed ? Key({is_worker[id], *speed, 0}) : std::nullopt;
  };
  add_machines(UpgradeKind::kSums, is_worker.size(), symmetry, sum, upgrades);
  return upgrades;
}

std::vector<std::size_t> passages_of(const Upgrade& upgrade, const Passages& passages) {
  std::vector<std::size_t> indices(upgrade.links.begin(), upgrade.links.end());
  const auto is_faster = mark(passages.network(), upgrade.machines);
  for (std::size_t i = 0; i < passages.size(); ++i) {
    const PassagePlace& place = passages.at(i);
    const bool is_sum = place.passage == Passage::kSum;
    if (is_sum != (upgrade.kind == UpgradeKind::kSums)) continue;
    if (is_faster[place.from] || is_faster[place.to]) indices.push_back(i);
  }
  return indices;
}

Network upgraded(const Network& network, const Upgrade& upgrade, double factor) {
  Network result = network;
  const auto faster = [factor](double& speed) { speed = std::min(speed * factor, kMaxSpeed); };
  for (const VertexId id : upgrade.machines) {
    Vertex& machine = result.vertices[id];
    if (upgrade.kind == UpgradeKind::kSums) {
      faster(*machine.sum);
    } else {
      faster(machine.in);
      faster(machine.out);
    }
  }
  std::vector<bool> is_faster(network.links.size(), false);
  for (const std::uint32_t link : upgrade.links) is_faster[link] = true;
  if (upgrade.kind == UpgradeKind::kNics) {
    const auto of = mark(network, upgrade.machines);
    for (std::size_t i = 0; i < is_faster.size(); ++i) {
      is_faster[i] = of[network.links[i].from] || of[network.links[i].to];
    }
  }
  for (std::size_t i = 0; i < is_faster.size(); ++i) {
    if (!is_faster[i]) continue;
    Link& link = result.links[i];
    faster(link.capacity);
    const Vertex& from = result.vertices[link.from];
    const Vertex& to = result.vertices[link.to];
    if (from.role != Role::kSwitch) link.capacity = std::min(link.capacity, from.out);
    if (to.role != Role::kSwitch) link.capacity = std::min(link.capacity, to.in);
  }
  return result;
}

}  // namespace tally::plan
