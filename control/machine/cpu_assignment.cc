#include "control/machine/cpu_assignment.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace tally::control {
namespace {

class Places {
 public:
  Places(Hardware hardware, std::span<const int> taken) : hardware_(std::move(hardware)) {
    for (Hardware::Core& core : hardware_.cores) {
      const auto free = std::stable_partition(core.cpus.begin(), core.cpus.end(), [&](int cpu) {
        return std::find(taken.begin(), taken.end(), cpu) != taken.end();
      });
      taken_.push_back(static_cast<std::size_t>(free - core.cpus.begin()));
    }
  }

  std::size_t left() const {
    return hardware_.cpus() - std::accumulate(taken_.begin(), taken_.end(), std::size_t{0});
  }

  // Precondition: a CPU is free.
  CpuAssignment next(int wanted) {
    std::size_t best = hardware_.cores.size();
    int best_cost = 0;
    for (std::size_t i = 0; i < hardware_.cores.size(); ++i) {
      const Hardware::Core& core = hardware_.cores[i];
      if (taken_[i] == core.cpus.size()) continue;
      // A second thread on a busy core is worse than a core of another node.
      const bool far = wanted != kNoNode && core.node != wanted;
      const int cost = 2 * static_cast<int>(taken_[i]) + (far ? 1 : 0);
      if (best != hardware_.cores.size() && cost >= best_cost) continue;
      best = i;
      best_cost = cost;
    }
    const Hardware::Core& core = hardware_.cores[best];
    return {core.cpus[taken_[best]++], core.node};
  }

 private:
  Hardware hardware_;               // in each core, the taken CPUs come first
  std::vector<std::size_t> taken_;  // number of taken CPUs of each core
};

}  // namespace

std::size_t Hardware::cpus() const {
  std::size_t count = 0;
  for (const Core& core : cores) count += core.cpus.size();
  return count;
}

bool Hardware::has_nodes() const {
  std::set<int> nodes;
  for (const Core& core : cores) nodes.insert(core.node);
  return nodes.size() > 1;
}

int node_of_nic(const Hardware& hardware, std::string_view nic) {
  const auto found = hardware.nics.find(nic);
  return found == hardware.nics.end() ? kNoNode : found->second;
}

// Shards with a preferred node choose first. The other shards do not need the cores near the NICs.
std::vector<CpuAssignment> place_shards(const Hardware& hardware, std::span<const std::string> nics,
                                        std::span<const int> taken) {
  std::vector<int> wanted;
  for (const std::string& nic : nics) wanted.push_back(node_of_nic(hardware, nic));
  const bool any =
      std::any_of(wanted.begin(), wanted.end(), [](int node) { return node != kNoNode; });
  if (!any || !hardware.has_nodes() || nics.size() > hardware.cpus()) return {};
  Places places(hardware, taken);
  if (places.left() < nics.size()) places = Places(hardware, {});
  std::vector<CpuAssignment> chosen(nics.size());
  for (const bool choosy : {true, false}) {
    for (std::size_t i = 0; i < nics.size(); ++i) {
      if ((wanted[i] != kNoNode) == choosy) chosen[i] = places.next(wanted[i]);
    }
  }
  return chosen;
}

}  // namespace tally::control
