#include "control/coordinator/layout/shares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "control/plan/stars/star_planner.h"
#include "dataplane/partition/partition.h"

namespace tally::control {
namespace {

using protocol::kMaxTrees;
static_assert(plan::kWeightUnit == protocol::kWeightUnit);

}  // namespace

std::vector<double> member_speeds(const std::vector<Member>& members) {
  double sum = 0, known = 0;
  for (const Member& member : members) {
    if (member.usable_speed() == 0) continue;
    sum += static_cast<double>(member.usable_speed());
    ++known;
  }
  std::vector<double> speeds;
  for (const Member& member : members) {
    const double otherwise = known > 0 ? sum / known : 1;
    const auto speed = static_cast<double>(member.usable_speed());
    speeds.push_back(speed > 0 ? speed : otherwise);
  }
  return speeds;
}

// A single speed of a machine is that of all its NICs together. NICs that are down reduce it by
// their part.
std::uint64_t Member::usable_speed() const {
  const std::uint64_t whole = measured.speed != 0 ? measured.speed : speed;
  if (rails.empty()) return whole;
  const std::uint64_t together = speed_of(rails);
  if (together == 0) return whole * rails_in_use(rails).size() / rails.size();
  if (measured.speed == 0) return together;
  std::vector<Rail> all = rails;
  for (Rail& rail : all) rail.up = true;
  return static_cast<std::uint64_t>(static_cast<double>(whole) * static_cast<double>(together) /
                                    static_cast<double>(speed_of(all)));
}

std::vector<plan::Vertex> machines_of(const std::vector<Member>& members) {
  const std::vector<double> speeds = member_speeds(members);
  std::vector<plan::Vertex> machines(members.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Member& member = members[i];
    machines[i].role = member.role == Role::kWorker ? plan::Role::kWorker : plan::Role::kHelper;
    machines[i].name = member.name;
    machines[i].in = machines[i].out = speeds[i];
    if (member.measured.sum != 0) machines[i].sum = static_cast<double>(member.measured.sum);
  }
  return machines;
}

const std::string& Member::usable_tcp() const {
  const auto some = rails_in_use(rails);
  return some.empty() || rails[some.front()].tcp.empty() ? tcp : rails[some.front()].tcp;
}

Members without_lost_rails(Members members) {
  std::vector<bool> lost(kMaxRails);
  for (const auto& [node, member] : members) {
    for (std::size_t i = 0; i < member.rails.size() && member.role == Role::kWorker; ++i) {
      if (!member.rails[i].up) lost[i] = true;
    }
  }
  for (auto& [node, member] : members) {
    for (std::size_t i = 0; i < member.rails.size(); ++i) {
      Rail& rail = member.rails[i];
      rail.up = member.draining || (rail.up && !lost[i]);
    }
  }
  return members;
}

std::vector<std::uint32_t> node_shares(const std::vector<Member>& members) {
  const bool workers = std::any_of(members.begin(), members.end(), [](const Member& member) {
    return member.role == Role::kWorker;
  });
  if (workers) return plan::round_weights(plan::star_shares(machines_of(members)).shares);
  // Without known workers, each member's share follows its speed.
  std::vector<double> shares = member_speeds(members);
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  return plan::round_weights(shares);
}

std::uint64_t rate_of(const std::vector<Member>& members, const std::vector<std::uint32_t>& shares,
                      std::uint32_t ranks) {
  const auto workers =
      static_cast<double>(std::count_if(members.begin(), members.end(), [](const Member& member) {
        return member.role == Role::kWorker;
      }));
  const double machines = workers > 0 ? workers : ranks;
  const double ranks_of_each = std::max(1.0, ranks / machines);
  double rate = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i].usable_speed() == 0) return 0;
    const double share = static_cast<double>(shares[i]) / plan::kWeightUnit;
    const double load =
        members[i].role == Role::kWorker ? 1 + (machines - 2) * share : machines * share;
    if (load > 0) {
      rate =
          std::min(rate, static_cast<double>(members[i].usable_speed()) / (load * ranks_of_each));
    }
  }
  return std::isfinite(rate) ? static_cast<std::uint64_t>(rate) : 0;
}

std::vector<std::uint32_t> tree_counts(const std::vector<Member>& members,
                                       const std::vector<std::uint32_t>& shares) {
  const auto with_at_most = [&](std::uint32_t bound) {
    std::vector<std::uint32_t> counts;
    for (std::size_t i = 0; i < members.size(); ++i) {
      counts.push_back(std::min({members[i].usable_shards(), bound, shares[i]}));
    }
    return counts;
  };
  for (std::uint32_t bound = kMaxTrees;; --bound) {
    auto counts = with_at_most(bound);
    if (bound == 1 || std::accumulate(counts.begin(), counts.end(), 0U) <= kMaxTrees) return counts;
  }
}

}  // namespace tally::control
