#include "control/plan/packing/same_way.h"

#include <algorithm>
#include <map>
#include <utility>

#include "control/plan/packing/places/problem.h"

namespace tally::plan {

std::optional<Network> slower_directions(const Network& network,
                                         std::span<const VertexId> workers) {
  Network slower = network;
  bool differs = false;
  for (Vertex& machine : slower.vertices) {
    differs = differs || machine.in != machine.out || machine.sum;
    machine.in = machine.out = std::min(machine.in, machine.out);
    // What it sums has come through its NIC.
    if (machine.sum && *machine.sum < machine.in) return std::nullopt;
    machine.sum.reset();
  }
  std::map<std::pair<VertexId, VertexId>, double> speeds;
  for (const Link& link : network.links) speeds[{link.from, link.to}] = link.capacity;
  for (Link& link : slower.links) {
    const auto back = speeds.find({link.to, link.from});
    if (back == speeds.end()) return std::nullopt;
    differs = differs || link.capacity > back->second;
    link.capacity = std::min(link.capacity, back->second);
  }
  if (!differs || !Problem(slower, workers, UseSymmetry::kYes).is_two_way()) return std::nullopt;
  return slower;
}

}  // namespace tally::plan
