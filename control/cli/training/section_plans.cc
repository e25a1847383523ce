#include "control/cli/training/section_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "control/plan/model/load.h"
#include "control/plan/model/tree.h"
#include "control/plan/model/validate.h"
#include "control/plan/stars/star_planner.h"

namespace tally::control {
namespace {

constexpr std::uint64_t kStarChunk = 256 << 10;
constexpr double kUnknownNic = 1e9;  // no plan domain of several servers has it

// Stars at these workers of the network, with weights by their NICs.
plan::Domain star_domain(const plan::Network& network, std::string name,
                         std::vector<plan::VertexId> workers) {
  std::vector<plan::Vertex> machines;
  for (const plan::VertexId id : workers) machines.push_back(network.vertices[id]);
  const plan::StarShares star = plan::star_shares(machines);
  const auto weights = plan::round_weights(star.shares);
  plan::SizeClass size_class{std::nullopt, kStarChunk, 0, {}};
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (weights[i] == 0) continue;
    size_class.trees.push_back(
        {weights[i], plan::star_parents(network.machines(), workers, workers[i]), {}});
  }
  plan::Routes routes(network);
  const double tau = plan::evaluate(routes, size_class).tau;
  return {std::move(name),
          std::move(workers),
          {std::move(size_class)},
          plan::Certificate{tau, std::min(tau, star.lower_bound)}};
}

// A server without a NIC speed has the speed of its fastest pair.
double nic_of(const plan::GpuFile& file, std::size_t server) {
  double nic = file.servers[server].nic;
  for (const plan::ServerPair& pair : file.pairs) {
    if (pair.first == server || pair.second == server) nic = std::max(nic, pair.speed);
  }
  return nic > 0 ? nic : kUnknownNic;
}

std::vector<std::uint32_t> narrow(const std::vector<std::size_t>& numbers) {
  std::vector<std::uint32_t> narrowed;
  for (const std::size_t number : numbers) narrowed.push_back(static_cast<std::uint32_t>(number));
  return narrowed;
}

Result<plan::Plan> checked(plan::Plan plan) {
  if (auto valid = plan::validate(plan, {}); !valid) return valid.error();
  return plan;
}

}  // namespace

std::string stage_job(const std::string& prefix, std::size_t stage) {
  return fmt::format("{}st{}", prefix, stage);
}

std::string group_job(const std::string& prefix, std::size_t group) {
  return fmt::format("{}dp{}", prefix, group);
}

Result<plan::Plan> pipeline_plan(const plan::GpuFile& file, const plan::pipeline::Cluster& cluster,
                                 const plan::pipeline::Partition& partition,
                                 const PlanFileOptions& options) {
  plan::Plan plan;
  plan.epoch = options.epoch;
  plan.method = "pipeline";
  std::vector<plan::Vertex> servers;
  for (std::size_t i = 0; i < file.servers.size(); ++i) {
    plan::Vertex server;
    server.name = file.servers[i].name;
    server.in = server.out = nic_of(file, i);
    servers.push_back(std::move(server));
  }
  plan.network = plan::star_network(std::move(servers));
  plan::PipelineSection section;
  section.order = narrow(partition.order);
  section.bottleneck = partition.bottleneck;
  for (const plan::pipeline::Stage& stage : partition.stages) {
    const std::string name = stage_job(options.job_prefix, section.stages.size());
    std::set<plan::VertexId> used;
    for (const std::size_t gpu : stage.gpus) {
      used.insert(static_cast<plan::VertexId>(cluster.gpus[gpu].server));
    }
    plan.domains.push_back(star_domain(plan.network, name, {used.begin(), used.end()}));
    section.stages.push_back({static_cast<std::uint32_t>(stage.first_block),
                              static_cast<std::uint32_t>(stage.end_block), narrow(stage.gpus),
                              narrow(stage.recompute), static_cast<std::uint32_t>(stage.in_flight),
                              name});
  }
  plan.pipeline = std::move(section);
  return checked(std::move(plan));
}

Result<plan::Plan> groups_plan(const plan::StepsFile& file, const plan::groups::GroupPlan& groups,
                               const plan::groups::Limits& limits, const PlanFileOptions& options) {
  plan::Plan plan;
  plan.epoch = options.epoch;
  plan.method = "groups";
  std::vector<plan::Vertex> machines;
  for (const plan::groups::Worker& worker : file.problem.workers) {
    plan::Vertex machine;
    machine.name = worker.name;
    machine.in = machine.out = file.problem.nic;
    machines.push_back(std::move(machine));
  }
  plan::Vertex server;
  server.role = plan::Role::kHelper;
  server.name = file.server;
  server.in = server.out = file.problem.server;
  machines.push_back(std::move(server));
  plan.network = plan::star_network(std::move(machines));
  plan::AsyncSection section;
  section.root = static_cast<std::uint32_t>(file.problem.workers.size());
  section.max_staleness = limits.staleness;
  for (const plan::groups::Group& group : groups.groups) {
    std::vector<plan::VertexId> workers = narrow(group.workers);
    std::sort(workers.begin(), workers.end());
    section.groups.push_back(group_job(options.job_prefix, section.groups.size()));
    section.local_steps.push_back(group.local_steps);
    plan.domains.push_back(star_domain(plan.network, section.groups.back(), std::move(workers)));
  }
  plan.async = std::move(section);
  return checked(std::move(plan));
}

}  // namespace tally::control
