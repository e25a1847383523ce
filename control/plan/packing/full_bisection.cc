#include "control/plan/packing/full_bisection.h"

#include <algorithm>

#include "control/plan/model/tree.h"
#include "control/plan/stars/star_planner.h"

namespace tally::plan {
namespace {

// By machine, the speed of its only link, each way, which joins it to a switch; empty when the
// network is another.
std::vector<double> link_speeds(const Problem& problem) {
  const std::size_t machines = problem.machines();
  if (!problem.is_two_way()) return {};
  std::vector<double> speeds(machines, 0);
  for (const Link& link : problem.network().links) {
    if (link.from >= machines) continue;
    if (link.to < machines || speeds[link.from] > 0) return {};
    speeds[link.from] = link.capacity;
  }
  return speeds;
}

// No machine passes on bytes of another, because each has one link.
bool all_reach_each_other(const Problem& problem) {
  for (VertexId id = 1; id < problem.machines(); ++id) {
    if (!problem.routes().has(0, id)) return false;
  }
  return true;
}

// Whether the links between switches, too, carry these shares in the time of the NICs.
bool nics_alone_limit(const Problem& problem, const Generated& stars) {
  std::vector<double> seconds(problem.rows().size(), 0);
  for (std::size_t i = 0; i < stars.trees.size(); ++i) {
    for (const RowUse& one : stars.uses[i]) seconds[one.row] += stars.shares[i] * one.seconds;
  }
  return *std::max_element(seconds.begin(), seconds.end()) <= stars.tau * (1 + 1e-9);
}

// By machine: the prices of its link that show the bound. Either the slowest worker's NIC limits,
// or all NICs together do (docs/planning.md has the proof).
std::vector<double> machine_prices(const Problem& problem, const std::vector<double>& speeds,
                                   double bound) {
  std::vector<double> prices(speeds.size(), 0);
  const auto& workers = problem.workers();
  const VertexId slowest =
      *std::min_element(workers.begin(), workers.end(),
                        [&](VertexId a, VertexId b) { return speeds[a] < speeds[b]; });
  if (bound <= (1 + 1e-12) / speeds[slowest]) {
    prices[slowest] = 1;
    return prices;
  }
  for (VertexId id = 0; id < prices.size(); ++id) {
    prices[id] = problem.is_worker()[id] ? 1 : 1 - 2 / static_cast<double>(workers.size());
  }
  return prices;
}

}  // namespace

std::optional<Generated> full_bisection(const Problem& problem) {
  const auto speeds = link_speeds(problem);
  if (speeds.empty() || problem.workers().size() < 2 || !all_reach_each_other(problem)) {
    return std::nullopt;
  }
  std::vector<Vertex> machines;
  for (VertexId id = 0; id < speeds.size(); ++id) {
    machines.push_back(problem.network().vertices[id]);
    machines[id].role = problem.is_worker()[id] ? Role::kWorker : Role::kHelper;
    machines[id].in = machines[id].out = speeds[id];
  }
  const StarShares star = star_shares(machines);
  Generated found;
  found.tau = star.tau;
  found.lower_bound = star.lower_bound;
  for (VertexId id = 0; id < machines.size(); ++id) {
    if (star.shares[id] <= 0) continue;
    found.shares.push_back(star.shares[id]);
    found.trees.push_back({0, star_parents(machines.size(), problem.workers(), id), {}});
    found.uses.push_back(problem.rows().use_of(found.trees.back()));
  }
  if (!nics_alone_limit(problem, found)) return std::nullopt;
  const auto prices = machine_prices(problem, speeds, star.lower_bound);
  found.prices.assign(problem.passages().size(), 0);
  for (std::size_t i = 0; i < problem.network().links.size(); ++i) {
    const Link& link = problem.network().links[i];
    const VertexId end = std::min(link.from, link.to);
    if (end < prices.size()) found.prices[i] = prices[end];
  }
  return found;
}

}  // namespace tally::plan
