// Networks for tests of planners.
#pragma once

#include <cstddef>
#include <random>
#include <vector>

#include "control/plan/model/network.h"
#include "tests/support/control/test_plans.h"

namespace tally::plan {

inline void join(Network& network, VertexId a, VertexId b, double capacity) {
  network.links.push_back({a, b, capacity});
  network.links.push_back({b, a, capacity});
}

// Racks of workers and helpers with NICs of `nic` below switches, which one switch joins by links
// of `uplink` each way. Machines rack by rack, workers first; then the switches of the racks.
inline Network rack_network(std::size_t racks, std::size_t workers, std::size_t helpers, double nic,
                            double uplink) {
  Network network;
  for (std::size_t rack = 0; rack < racks; ++rack) {
    for (const Vertex& one : equal_machines(workers, helpers, nic)) network.vertices.push_back(one);
  }
  const auto machines = static_cast<VertexId>(network.vertices.size());
  network.vertices.resize(machines + racks + 1, Vertex{.role = Role::kSwitch});
  const auto per_rack = static_cast<VertexId>(workers + helpers);
  for (VertexId id = 0; id < machines; ++id) join(network, id, machines + id / per_rack, nic);
  const auto top = static_cast<VertexId>(machines + racks);
  for (VertexId hub = machines; hub < top; ++hub) join(network, hub, top, uplink);
  return network;
}

// Machines without switches, whose NICs do not limit.
inline Network overlay_network(std::size_t workers, std::size_t helpers) {
  return Network{equal_machines(workers, helpers, 1e12), {}};
}

inline std::vector<VertexId> workers_of(const Network& network) {
  std::vector<VertexId> workers;
  for (VertexId id = 0; id < network.machines(); ++id) {
    if (network.vertices[id].role == Role::kWorker) workers.push_back(id);
  }
  return workers;
}

// 3 to 5 machines, two or more of them workers, and up to two switches. Every machine has a link to
// each switch; more machines are joined at random. two_way: every link and NIC is as fast both
// ways, and no machine's sums are limited.
inline Network random_network(std::mt19937_64& random, bool two_way) {
  const auto speed = [&] { return static_cast<double>(10 + random() % 90); };
  const std::size_t machines = 3 + random() % 3;
  const std::size_t workers = 2 + random() % (machines - 1);
  Network network{equal_machines(workers, machines - workers), {}};
  const std::size_t switches = random() % 3;
  network.vertices.resize(machines + switches, Vertex{.role = Role::kSwitch});
  for (std::size_t id = 0; id < machines; ++id) {
    Vertex& one = network.vertices[id];
    one.in = one.out = speed() + 100;
    if (!two_way) one.out = speed() + 100;
    if (!two_way && random() % 3 == 0) one.sum = speed();
  }
  for (VertexId a = 0; a < network.vertices.size(); ++a) {
    for (VertexId b = 0; b < a; ++b) {
      const bool is_chain = switches == 0 && a == b + 1;
      if (!is_chain && b < machines && a < machines && random() % 3 != 0) continue;
      join(network, b, a, speed());
      if (!two_way) network.links.back().capacity = speed();
    }
  }
  return network;
}

}  // namespace tally::plan
