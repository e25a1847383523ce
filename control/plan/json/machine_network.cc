#include "control/plan/json/machine_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "control/plan/json/document.h"
#include "control/plan/json/network_json.h"
#include "control/plan/model/validate.h"

namespace tally::plan {
namespace {

Result<std::vector<Vertex>> machines_of(const MachineFile& file) {
  if (file.machines.empty()) return invalid("machines: there are none; must be at least one");
  std::vector<Vertex> machines;
  for (const Machine& machine : file.machines) {
    auto vertex = vertex_of(machine);
    if (!vertex) return vertex.error();
    machines.push_back(std::move(vertex).value());
  }
  return machines;
}

class MachineNetwork {
 public:
  explicit MachineNetwork(std::vector<Vertex> machines) { network_.vertices = std::move(machines); }

  Network build(const MachineFile& file) {
    for (std::uint32_t i = 0; i < file.racks.size(); ++i) {
      add({.role = Role::kSwitch, .name = file.racks[i].name, .rack = i});
    }
    for (const Switch& one : file.switches) add({.role = Role::kSwitch, .name = one.name});
    for (const auto* list : {&file.racks, &file.switches}) {
      for (const Switch& one : *list) {
        if (one.up > 0) join(ids_.at(one.name), switch_named(one.to), one.up, one.down);
      }
    }
    for (VertexId id = 0; id < file.machines.size(); ++id) {
      const VertexId at = switch_named(file.machines[id].rack);
      network_.vertices[id].rack = network_.vertices[at].rack;
      join(id, at, network_.vertices[id].out, network_.vertices[id].in);
    }
    return std::move(network_);
  }

 private:
  VertexId add(Vertex vertex) {
    const auto id = static_cast<VertexId>(network_.vertices.size());
    ids_.emplace(vertex.name, id);
    network_.vertices.push_back(std::move(vertex));
    return id;
  }

  VertexId switch_named(const std::string& name) {
    const std::string known = name.empty() ? std::string(kCoreName) : name;
    const auto found = ids_.find(known);
    return found != ids_.end() ? found->second : add({.role = Role::kSwitch, .name = known});
  }

  void join(VertexId one, VertexId other, double there, double back) {
    network_.links.push_back({one, other, there});
    network_.links.push_back({other, one, back});
  }

  Network network_;
  std::map<std::string, VertexId> ids_;  // of racks and switches
};

// The route of a pair that has a link is this link, because it has the fewest hops. A pair that is
// narrow one way has a link each way, because a network whose links go both ways is planned fast
// (packing/same_way.h).
Network with_narrow_pairs(Network network, const MachineFile& file) {
  std::map<std::pair<VertexId, VertexId>, double> measured, links;
  for (const MachinePair& pair : file.pairs) {
    measured[{static_cast<VertexId>(pair.from), static_cast<VertexId>(pair.to)}] = pair.speed;
  }
  for (const auto& [ends, speed] : measured) {
    const auto [from, to] = ends;
    if (nics_of_narrow(file, {from, to, speed}) == 0) continue;
    links[ends] = speed;
    const auto back = measured.find({to, from});
    const double nics = std::min(network.vertices[to].out, network.vertices[from].in);
    links[{to, from}] = back == measured.end() ? nics : std::min(back->second, nics);
  }
  for (const auto& [ends, speed] : links) network.links.push_back({ends.first, ends.second, speed});
  return network;
}

Outcome check_machines(const Network& network) {
  if (auto valid = validate(network); !valid) return valid;
  const std::vector<bool> found = reached(network, 0, true);
  for (VertexId id = 0; id < network.machines(); ++id) {
    if (found[id]) continue;
    return invalid(fmt::format("machine \"{}\": no links lead to it from machine \"{}\"; {}",
                               network.name_of(id), network.name_of(0), kJoinSwitches));
  }
  return Unit{};
}

}  // namespace

Result<Network> network_of(const MachineFile& file) {
  auto machines = machines_of(file);
  if (!machines) return machines.error();
  const bool is_star = file.racks.empty() && file.switches.empty();
  Network network = is_star ? with_narrow_pairs(star_network(std::move(machines).value()), file)
                            : MachineNetwork(std::move(machines).value()).build(file);
  if (auto valid = check_machines(network); !valid) return valid.error();
  return network;
}

double nics_of_narrow(const MachineFile& file, const MachinePair& pair) {
  constexpr double kNarrow = 0.9;
  const Machine &from = file.machines[pair.from], &to = file.machines[pair.to];
  const double nics = std::min(from.out > 0 ? from.out : from.nic, to.in > 0 ? to.in : to.nic);
  return pair.speed < kNarrow * nics ? nics : 0;
}

Result<Network> read_network_or_machines(std::string_view text, const ReadPcie& read_pcie) {
  const auto document = parse_document(text, kMaxNetworkBytes);
  if (!document) return document.error();
  if (!document->is_object()) return read_network(text, read_pcie);
  Mistake mistake;
  const Value file(*document, mistake);
  const std::size_t format = file.member("fmt").word({kNetworkFormat, kMachinesFormat});
  if (mistake.any()) return invalid(mistake.text());
  if (format == 0) return read_network(text, read_pcie);
  const auto machines = read_machines(text);
  if (!machines) return machines.error();
  return network_of(*machines);
}

}  // namespace tally::plan
