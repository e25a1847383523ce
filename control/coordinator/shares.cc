#include "control/coordinator/shares.h"

#include <algorithm>
#include <numeric>

#include "dataplane/protocol/cut.h"

namespace tally::control {
namespace {

using protocol::kMaxTrees;
using protocol::kWeightUnit;

std::vector<double> speeds_of(const std::vector<Member>& members) {
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

// What each could carry in the least time that is possible, of 1 in all. A machine with workers
// sends its own gradient and takes the result (1), and does both for n - 2 others' shares of what
// it carries; a helper does so for n.
std::vector<double> most_each_can(const std::vector<Member>& members,
                                  const std::vector<double>& speeds) {
  double n = 0, slowest = 0, capacity = 0;
  for (const Member& member : members) n += member.role == Role::kWorker ? 1 : 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const bool worker = members[i].role == Role::kWorker;
    capacity += worker ? speeds[i] : (1 - 2 / n) * speeds[i];
    if (worker) slowest = slowest == 0 ? speeds[i] : std::min(slowest, speeds[i]);
  }
  const double time = std::max(1 / slowest, 2 * (n - 1) / capacity);
  std::vector<double> most;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const bool worker = members[i].role == Role::kWorker;
    // Of two workers any share takes the same time: theirs are as the helpers'.
    const double own = n > 2 ? (speeds[i] * time - 1) / (n - 2) : speeds[i] * time / n;
    most.push_back(std::max(0.0, worker ? own : speeds[i] * time / n));
  }
  return most;
}

// Whole units, by largest remainder.
std::vector<std::uint32_t> in_units(const std::vector<double>& parts) {
  const double sum = std::accumulate(parts.begin(), parts.end(), 0.0);
  std::vector<std::uint32_t> units;
  std::vector<std::pair<double, std::size_t>> rest;
  std::uint32_t left = kWeightUnit;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double exact = parts[i] / sum * kWeightUnit;
    // Rounding must not make of nothing a tree.
    units.push_back(std::min(static_cast<std::uint32_t>(exact + 1e-6), left));
    left -= units.back();
    rest.emplace_back(units.back() - exact, i);
  }
  std::sort(rest.begin(), rest.end());
  for (std::size_t i = 0; left > 0; i = (i + 1) % rest.size(), --left) ++units[rest[i].second];
  return units;
}

}  // namespace

std::vector<std::uint32_t> node_shares(const std::vector<Member>& members) {
  const std::vector<double> speeds = speeds_of(members);
  const auto workers = std::count_if(members.begin(), members.end(), [](const Member& member) {
    return member.role == Role::kWorker;
  });
  if (workers == 0) return in_units(speeds);
  if (workers > 1) return in_units(most_each_can(members, speeds));
  // All workers are on one machine: there nothing goes over a network.
  std::vector<double> alone;
  for (const Member& member : members) alone.push_back(member.role == Role::kWorker ? 1 : 0);
  return in_units(alone);
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
