#include "control/coordinator/shares.h"

#include <algorithm>
#include <numeric>

#include "control/plan/star_planner.h"
#include "dataplane/protocol/cut.h"

namespace tally::control {
namespace {

using protocol::kMaxTrees;
static_assert(plan::kWeightUnit == protocol::kWeightUnit);

}  // namespace

std::vector<double> member_speeds(const std::vector<Member>& members) {
  double sum = 0, known = 0;
  for (const Member& member : members) {
    if (member.speed == 0) continue;
    sum += static_cast<double>(member.speed);
    ++known;
  }
  std::vector<double> speeds;
  for (const Member& member : members) {
    const double otherwise = known > 0 ? sum / known : 1;
    speeds.push_back(member.speed != 0 ? static_cast<double>(member.speed) : otherwise);
  }
  return speeds;
}

std::vector<std::uint32_t> node_shares(const std::vector<Member>& members) {
  const std::vector<double> speeds = member_speeds(members);
  std::vector<plan::Vertex> machines(members.size());
  bool workers = false;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const bool worker = members[i].role == Role::kWorker;
    machines[i].role = worker ? plan::Role::kWorker : plan::Role::kHelper;
    machines[i].in = machines[i].out = speeds[i];
    workers |= worker;
  }
  if (workers) return plan::round_weights(plan::star_shares(machines).shares);
  // Nobody knows where the workers are: by what each can carry.
  std::vector<double> shares = speeds;
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  return plan::round_weights(shares);
}

std::vector<std::uint32_t> tree_counts(const std::vector<Member>& members,
                                       const std::vector<std::uint32_t>& shares) {
  const auto with_at_most = [&](std::uint32_t bound) {
    std::vector<std::uint32_t> counts;
    for (std::size_t i = 0; i < members.size(); ++i) {
      counts.push_back(std::min({members[i].shards, bound, shares[i]}));
    }
    return counts;
  };
  for (std::uint32_t bound = kMaxTrees;; --bound) {
    auto counts = with_at_most(bound);
    if (bound == 1 || std::accumulate(counts.begin(), counts.end(), 0U) <= kMaxTrees) return counts;
  }
}

}  // namespace tally::control
