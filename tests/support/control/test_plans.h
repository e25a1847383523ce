// Machines and plans for the tests of this folder.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "control/plan/model/plan.h"
#include "control/plan/model/tree.h"
#include "control/plan/stars/star_planner.h"

namespace tally::plan {

inline Vertex machine(Role role, double speed, std::string name = "") {
  Vertex vertex;
  vertex.role = role;
  vertex.name = std::move(name);
  vertex.in = vertex.out = speed;
  return vertex;
}

inline std::vector<Vertex> equal_machines(std::size_t workers, std::size_t helpers,
                                          double speed = 1) {
  std::vector<Vertex> machines(workers, machine(Role::kWorker, speed));
  machines.insert(machines.end(), helpers, machine(Role::kHelper, speed));
  return machines;
}

// Returns machines of unequal speeds, with roles in any order.
inline std::vector<Vertex> random_machines(std::mt19937_64& random) {
  std::uniform_real_distribution<double> speed(1, 10);
  std::vector<Vertex> machines;
  const std::size_t workers = 2 + random() % 9;
  const std::size_t helpers = random() % 8;
  while (machines.size() < workers + helpers) {
    machines.push_back(
        machine(machines.size() < workers ? Role::kWorker : Role::kHelper, speed(random) * 1e9));
  }
  std::shuffle(machines.begin(), machines.end(), random);
  return machines;
}

// Racks of workers below their switches, which one switch joins by links of `parent connection`
// each way. Workers 0, 1, ... rack by rack; switches behind them, the upper one last.
inline Network racks(std::size_t count, std::size_t workers, double parent_connection) {
  Network network;
  network.vertices = equal_machines(count * workers, 0);
  const auto first = static_cast<VertexId>(count * workers);
  const auto top = static_cast<VertexId>(first + count);
  network.vertices.resize(top + 1, Vertex{.role = Role::kSwitch});
  const auto join = [&](VertexId a, VertexId b, double capacity) {
    network.links.push_back({a, b, capacity});
    network.links.push_back({b, a, capacity});
  };
  for (VertexId id = 0; id < first; ++id) {
    join(id, first + id / static_cast<VertexId>(workers), 1);
  }
  for (VertexId rack = first; rack < top; ++rack) join(rack, top, parent_connection);
  return network;
}

// Workers 0, 1, 2 and helper 3 are joined to switch 4. The last class has a star at the helper and
// a chain to worker 0. The first class has only the star.
inline Plan small_plan() {
  Plan plan;
  plan.epoch = 7;
  plan.method = "by hand";
  std::vector<Vertex> machines = equal_machines(3, 1, 1e9);
  machines[0].name = "10.0.0.1:7000";
  machines[1].rack = 2;
  machines[3].sum = 4e9;
  plan.network = star_network(machines);
  Domain domain;
  domain.name = "all";
  domain.workers = {0, 1, 2};
  SizeClass small{65536, 65536, 0, {Tree{65536, {3, 3, 3, -1}, {}}}};
  SizeClass large{{}, 262144, 64, {Tree{40000, {3, 3, 3, -1}, {}}}};
  large.trees.push_back(Tree{25536, {-1, 0, 1, -2}, {-1, 2, 0, -2}});
  domain.classes = {small, large};
  plan.domains.push_back(domain);
  return plan;
}

}  // namespace tally::plan
