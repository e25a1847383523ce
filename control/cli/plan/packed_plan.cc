#include "control/cli/plan/packed_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/text/speed.h"
#include "control/cli/plan/plan_files.h"
#include "control/plan/model/load.h"
#include "control/plan/packing/packed_planner.h"

namespace tally::control {

using nlohmann::json;

Result<plan::Plan> plan_for_network(const std::string& path, std::uint64_t chunk,
                                    std::uint64_t epoch) {
  const auto in_file = [&path](const Error& error) {
    return Error{error.status, fmt::format("--network {}: {}", path, error.message)};
  };
  const auto network = read_network_file(path);
  if (!network) return Error{network.status(), "--network " + network.error().message};
  std::vector<plan::VertexId> workers;
  for (plan::VertexId id = 0; id < network->vertices.size(); ++id) {
    if (network->vertices[id].role == plan::Role::kWorker) workers.push_back(id);
  }
  if (workers.empty()) {
    return in_file(
        {Status::kInvalidArgument, "no machine has the role \"worker\"; give at least one"});
  }
  plan::PackingOptions options;
  options.chunk = chunk;
  options.epoch = epoch;
  auto plan = plan::plan_packed(*network, workers, options);
  if (!plan) return in_file(plan.error());
  return plan;
}

json describe_packed(const plan::Plan& plan) {
  const plan::Domain& domain = plan.domains[0];
  const plan::SizeClass& last = domain.classes.back();
  plan::Routes routes(plan.network);
  const plan::ClassLoad load = plan::evaluate(routes, last);
  const std::size_t machines = plan.network.machines();
  return {{"method", plan.method},
          {"workers", domain.workers.size()},
          {"helpers", machines - domain.workers.size()},
          {"switches", plan.network.vertices.size() - machines},
          {"trees", last.trees.size()},
          {"tau", domain.certificate->tau},
          {"lower_bound", domain.certificate->lower_bound},
          {"binds", load.tau > 0 ? plan::describe(load.loads[load.binds], plan.network) : ""}};
}

std::string render_packed(const json& described) {
  std::string text = fmt::format(
      "workers: {}, helpers: {}, switches: {}\n", described["workers"].get<std::size_t>(),
      described["helpers"].get<std::size_t>(), described["switches"].get<std::size_t>());
  const double tau = described["tau"], bound = described["lower_bound"];
  if (tau <= 0) return text + "one worker: nothing travels\n";
  text += fmt::format("{} trees ({}): {:.4g} ns per byte ({}); {} limits\n",
                      described["trees"].get<std::size_t>(), described["method"].get<std::string>(),
                      tau * 1e9, speed_text(1 / tau), described["binds"].get<std::string>());
  return text + fmt::format("lower bound {:.4g} ns per byte: at most {:.2f}% from the best\n",
                            bound * 1e9, 100 * (std::max(tau / bound, 1.0) - 1));
}

}  // namespace tally::control
