#include "control/sim/core/tiers.h"

#include <algorithm>
#include <numeric>

namespace tally::simulator {
namespace {

// By vertex: the lowest vertex of its rack (union of the ends of all links that have a machine).
std::vector<plan::VertexId> racks_of(const plan::Network& network) {
  std::vector<plan::VertexId> rack(network.vertices.size());
  std::iota(rack.begin(), rack.end(), plan::VertexId{0});
  const auto find = [&](plan::VertexId id) {
    while (rack[id] != id) id = rack[id] = rack[rack[id]];
    return id;
  };
  const std::size_t machines = network.machines();
  for (const plan::Link& link : network.links) {
    if (link.from >= machines && link.to >= machines) continue;
    const plan::VertexId from = find(link.from);
    const plan::VertexId to = find(link.to);
    rack[std::max(from, to)] = std::min(from, to);
  }
  for (plan::VertexId id = 0; id < rack.size(); ++id) rack[id] = find(id);
  return rack;
}

}  // namespace

std::vector<Tier> tiers_of(const plan::Network& network, std::span<const plan::VertexId> workers,
                           std::span<const plan::Load> loads, double bytes) {
  const std::vector<plan::VertexId> rack = racks_of(network);
  std::vector<bool> has_machine(rack.size());
  for (plan::VertexId id = 0; id < network.machines(); ++id) has_machine[rack[id]] = true;
  std::vector<plan::VertexId> used;
  for (const plan::VertexId worker : workers) used.push_back(rack[worker]);
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());

  const auto least = [bytes](std::size_t joined) {
    return 2 * (static_cast<double>(joined) - 1) * bytes;
  };
  Tier machines{"machines", 0, least(workers.size())};
  Tier racks{"racks", 0, least(used.size())};
  for (std::size_t i = 0; i < loads.size(); ++i) {
    const plan::Load& load = loads[i];
    if (load.passage == plan::Passage::kOut) machines.moved += load.bytes;
    if (load.passage == plan::Passage::kLink && has_machine[rack[load.from]] &&
        rack[load.from] != rack[load.to]) {
      racks.moved += load.bytes;
    }
  }
  std::vector<Tier> tiers = {machines};
  if (used.size() > 1) tiers.push_back(racks);
  return tiers;
}

}  // namespace tally::simulator
