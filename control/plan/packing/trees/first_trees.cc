#include "control/plan/packing/trees/first_trees.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "control/plan/model/tree.h"

namespace tally::plan {
namespace {

constexpr std::size_t kMostTwoLevelTrees = 256;

bool has_routes(Routes& routes, const Parents& parents) {
  for (VertexId child = 0; child < parents.size(); ++child) {
    if (parents[child] < 0) continue;
    const auto parent = static_cast<VertexId>(parents[child]);
    if (!routes.has(child, parent) || !routes.has(parent, child)) return false;
  }
  return true;
}

// The machines by the switch of their first link, without switches of helpers alone.
std::vector<std::vector<VertexId>> machines_by_switch(const Problem& problem) {
  std::map<VertexId, std::vector<VertexId>> by_switch;
  std::vector<bool> known(problem.machines(), false);
  for (const Link& link : problem.network().links) {
    if (link.from >= known.size() || link.to < known.size() || known[link.from]) continue;
    known[link.from] = true;
    by_switch[link.to].push_back(link.from);
  }
  std::vector<std::vector<VertexId>> racks;
  for (auto& [hub, machines] : by_switch) {
    std::sort(machines.begin(), machines.end());
    const bool has_worker = std::any_of(machines.begin(), machines.end(),
                                        [&](VertexId id) { return problem.is_worker()[id]; });
    if (has_worker) racks.push_back(machines);
  }
  return racks;
}

// The i-th machine of each switch, counted around, sums for its workers; that of switch `root` is
// the root.
Parents two_levels(const Problem& problem, const std::vector<std::vector<VertexId>>& racks,
                   std::size_t root, std::size_t i) {
  Parents parents(problem.machines(), kIsAbsent);
  const VertexId top = racks[root][i % racks[root].size()];
  for (const auto& rack : racks) {
    const VertexId aggregator = rack[i % rack.size()];
    for (const VertexId id : rack) {
      if (problem.is_worker()[id]) parents[id] = static_cast<std::int32_t>(aggregator);
    }
    parents[aggregator] = static_cast<std::int32_t>(top);
  }
  parents[top] = kIsRoot;
  return parents;
}

// Of each switch, the first `aggregators` workers each sum for an equal part of its workers, and
// send to the root.
Parents several_aggregators(const Problem& problem, const std::vector<std::vector<VertexId>>& racks,
                            VertexId root, std::size_t aggregators) {
  Parents parents(problem.machines(), kIsAbsent);
  for (const auto& rack : racks) {
    std::vector<VertexId> workers;
    std::copy_if(rack.begin(), rack.end(), std::back_inserter(workers),
                 [&](VertexId id) { return problem.is_worker()[id]; });
    for (std::size_t i = 0; i < workers.size(); ++i) {
      const VertexId parent = i < aggregators ? root : workers[i % aggregators];
      parents[workers[i]] = static_cast<std::int32_t>(parent);
    }
  }
  parents[root] = kIsRoot;
  return parents;
}

}  // namespace

std::vector<Tree> first_trees(const Problem& problem) {
  std::vector<Tree> trees;
  const auto add = [&](Parents parents) {
    const auto absent_worker = [&](VertexId id) { return parents[id] == kIsAbsent; };
    const bool has_all =
        std::none_of(problem.workers().begin(), problem.workers().end(), absent_worker);
    if (has_all && has_routes(problem.routes(), parents))
      trees.push_back({0, std::move(parents), {}});
  };
  for (const Group& group : problem.symmetry().groups) {
    add(star_parents(problem.machines(), problem.workers(), group.machines.front()));
  }
  const auto racks = machines_by_switch(problem);
  std::size_t largest = 0;
  for (const auto& rack : racks) largest = std::max(largest, rack.size());
  for (std::size_t i = 0; i < largest; ++i) {
    for (std::size_t root = 0; root < racks.size() && racks.size() > 1; ++root) {
      if (root > 0 && (problem.symmetry().sets.size() < racks.size() ||
                       racks.size() * largest > kMostTwoLevelTrees)) {
        break;
      }
      add(two_levels(problem, racks, root, i));
    }
  }
  for (const auto& set : problem.symmetry().sets) {
    for (const std::size_t group : problem.symmetry().racks[set.front()].groups) {
      const VertexId root = problem.symmetry().groups[group].machines.front();
      for (std::size_t aggregators = 2; aggregators < largest; aggregators *= 2) {
        if (racks.size() > 1) add(several_aggregators(problem, racks, root, aggregators));
      }
    }
  }
  return trees;
}

}  // namespace tally::plan
