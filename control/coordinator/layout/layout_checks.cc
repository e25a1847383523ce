// Checks whether nodes can serve a plan of machines, and finds the worker of each rank.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "control/coordinator/layout/file_trees.h"
#include "control/coordinator/layout/layout.h"
#include "control/coordinator/layout/shares.h"
#include "control/coordinator/layout/substitutes.h"
#include "control/plan/json/served.h"

namespace tally::control {
namespace {

using plan::VertexId;
using Ranks = std::vector<std::uint16_t>;

static_assert(plan::kServedTrees == protocol::kMaxTrees);
// One class more for operations that are not divided.
static_assert(plan::kServedClasses + 1 == protocol::kMaxClasses);

std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", name);
  }
  return text;
}

// Precondition: lost NICs are marked.
Outcome check_rails(const MachinePlan& plan, const FileTrees& found, const Members& members) {
  for (VertexId id = 0; id < plan.file.network.machines(); ++id) {
    const auto* member = member_of(plan, members, id);
    if (member == nullptr || !has_lost_rails(member->second)) continue;
    const std::uint32_t trees = trees_at(found, id), shards = member->second.usable_shards();
    if (trees <= shards) continue;
    return refused(
        fmt::format("{} trees of domain \"{}\" sum at node \"{}\", where NICs are down or workers "
                    "do not reach them, and the others have {} shard(s): mend the NICs (tallyctl "
                    "nodes has them), or set a plan of fewer trees there",
                    trees, plan.of().name, member->second.name, shards));
  }
  return Unit{};
}

}  // namespace

Outcome check_layout(const MachinePlan& plan, const Members& members) {
  if (auto served = plan::check_served(plan.file.network, plan.of()); !served) return served;
  const FileTrees found = trees_of(plan);
  if (auto fit = check_rails(plan, found, without_lost_rails(members)); !fit) return fit;
  std::vector<std::string> missing, known;
  for (VertexId id = 0; id < plan.file.network.machines(); ++id) {
    if (trees_at(found, id) == 0 || member_of(plan, members, id) != nullptr) continue;
    missing.push_back(plan.file.network.name_of(id));
  }
  if (missing.empty()) {
    const auto seats = find_seats(plan, found, without_lost_rails(members));
    return seats ? Outcome(Unit{}) : Outcome(seats.error());
  }
  for (const auto& [node, member] : members) known.push_back(member.name);
  return refused(
      fmt::format("the plan sums at machines that are no members: {}; \"addr\" is a node's "
                  "cluster.name. Members are: {}",
                  quoted(missing), known.empty() ? "none" : quoted(known)));
}

bool asks_for_hosts(const MachinePlan& plan) {
  const FileTrees found = trees_of(plan);
  return std::any_of(found.trees.begin(), found.trees.end(),
                     [](const FileTree& tree) { return tree.shape.depth() > 1; });
}

Result<std::vector<Ranks>> ranks_of_workers(const MachinePlan& plan, const Members& members,
                                            const std::vector<std::string>& hosts) {
  const auto& workers = plan.of().workers;
  std::vector<Ranks> by_worker(workers.size());
  bool unambiguous = true;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    std::size_t matches = 0, at = 0;
    for (std::size_t i = 0; i < workers.size(); ++i) {
      const auto* member = member_of(plan, members, workers[i]);
      const bool here = (member != nullptr && member->second.host == hosts[rank]) ||
                        plan.file.network.vertices[workers[i]].name == hosts[rank];
      if (here) at = i;
      matches += here ? 1 : 0;
    }
    unambiguous &= matches == 1;
    if (matches == 1) by_worker[at].push_back(static_cast<std::uint16_t>(rank));
  }
  unambiguous &=
      std::none_of(by_worker.begin(), by_worker.end(), [](const auto& all) { return all.empty(); });
  if (unambiguous) return by_worker;
  if (hosts.size() != workers.size()) {
    return refused(
        fmt::format("the plan's domain \"{}\" has {} workers and the job {} ranks, and the ranks' "
                    "hosts do not match its workers (rank 0 is on \"{}\"): each must be the host "
                    "or the name of one worker's node, and each worker have a rank; or take as "
                    "many ranks as workers",
                    plan.of().name, workers.size(), hosts.size(), hosts.empty() ? "" : hosts[0]));
  }
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    by_worker[rank] = {static_cast<std::uint16_t>(rank)};
  }
  return by_worker;
}

}  // namespace tally::control
