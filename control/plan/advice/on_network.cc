#include "control/plan/advice/on_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "control/plan/model/validate.h"

namespace tally::plan {
namespace {

// By machine of the plan: its id in the network.
Result<std::vector<VertexId>> ids_in(const Network& network, const Network& of_plan) {
  std::map<std::string, VertexId> ids;
  for (VertexId id = 0; id < network.machines(); ++id) ids.emplace(network.vertices[id].name, id);
  std::vector<VertexId> found;
  for (VertexId id = 0; id < of_plan.machines(); ++id) {
    const std::string& name = of_plan.vertices[id].name;
    if (name.empty()) {
      return invalid(
          fmt::format("nodes[{}]: the plan gives it no \"addr\", by which to find it in "
                      "the network; give it one",
                      id));
    }
    const auto at = ids.find(name);
    if (at == ids.end()) {
      return invalid(
          fmt::format("nodes[{}].addr = \"{}\": the network has no such machine; give "
                      "the network of the plan's machines",
                      id, name));
    }
    found.push_back(at->second);
  }
  return found;
}

Parents moved(const Parents& parents, const std::vector<VertexId>& ids, std::size_t machines) {
  if (parents.empty()) return {};
  Parents result(machines, kIsAbsent);
  for (std::size_t id = 0; id < parents.size(); ++id) {
    const std::int32_t parent = parents[id];
    result[ids[id]] =
        parent < 0 ? parent : static_cast<std::int32_t>(ids[static_cast<std::size_t>(parent)]);
  }
  return result;
}

// Without this check, the planner of changes would take further workers for helpers.
Outcome check_workers(const Plan& plan, const Network& network, const std::vector<VertexId>& ids) {
  std::vector<bool> is_known(network.machines()), is_worker(network.machines());
  for (const VertexId id : ids) is_known[id] = true;
  for (const Domain& domain : plan.domains) {
    for (const VertexId id : domain.workers) {
      is_worker[ids[id]] = true;
      const Vertex& machine = network.vertices[ids[id]];
      if (machine.role == Role::kWorker) continue;
      return invalid(
          fmt::format("machine \"{}\": a worker of the plan, but a {} of the network; give it the "
                      "role \"worker\" there",
                      machine.name, role_name(machine.role)));
    }
  }
  for (VertexId id = 0; id < network.machines(); ++id) {
    if (is_worker[id] || network.vertices[id].role != Role::kWorker) continue;
    if (is_known[id]) {
      return invalid(
          fmt::format("machine \"{}\": no worker of the plan, but one of the network; give it the "
                      "role \"helper\" there, or make a new plan",
                      network.name_of(id)));
    }
    return invalid(
        fmt::format("machine \"{}\": a worker of the network that the plan does not have; leave it "
                    "out there, or make a new plan",
                    network.name_of(id)));
  }
  return Unit{};
}

}  // namespace

Result<Plan> on_network(const Plan& plan, const Network& network) {
  const auto ids = ids_in(network, plan.network);
  if (!ids) return ids.error();
  if (auto same = check_workers(plan, network, *ids); !same) return same.error();
  Plan result;
  result.epoch = plan.epoch;
  result.method = plan.method;
  result.network = network;
  for (Domain domain : plan.domains) {
    for (VertexId& id : domain.workers) id = (*ids)[id];
    std::sort(domain.workers.begin(), domain.workers.end());
    domain.certificate.reset();
    for (SizeClass& size_class : domain.classes) {
      for (Tree& tree : size_class.trees) {
        tree.up = moved(tree.up, *ids, network.machines());
        tree.down = moved(tree.down, *ids, network.machines());
      }
    }
    result.domains.push_back(std::move(domain));
  }
  if (auto valid = validate(result, {.max_height = UINT32_MAX}); !valid) return valid.error();
  return result;
}

}  // namespace tally::plan
