#include "gpu_bridge/machine/rings.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <set>

namespace tally::host {
namespace {

constexpr std::size_t kMostOrdered = 8;  // GPUs in a ring whose orders are all compared

GpuSet bit(std::size_t index) {
  return GpuSet{1} << index;
}

GpuSet all_of(std::size_t gpus) {
  return gpus >= 32 ? ~GpuSet{0} : bit(gpus) - 1;
}

bool is_below(const Host& host, VertexId vertex, VertexId above) {
  while (vertex != above && vertex != kNone) vertex = host.vertices[vertex].under;
  return vertex == above;
}

// From the NUMA node down.
std::vector<VertexId> path_of(const Host& host, VertexId vertex) {
  std::vector<VertexId> path;
  for (; vertex != kNone; vertex = host.vertices[vertex].under) path.push_back(vertex);
  std::reverse(path.begin(), path.end());
  return path;
}

std::set<GpuSet> natural_sets(const Routes& routes) {
  const Host& host = routes.host();
  const auto gpus = host.all(Kind::kGpu);
  std::set<GpuSet> sets = {all_of(gpus.size())};
  for (std::size_t i = 0; i < gpus.size(); ++i) sets.insert(bit(i));
  for (const Kind kind : {Kind::kNuma, Kind::kSwitch}) {
    for (const VertexId above : host.all(kind)) {
      GpuSet set = 0;
      for (std::size_t i = 0; i < gpus.size(); ++i) {
        if (is_below(host, gpus[i], above)) set |= bit(i);
      }
      sets.insert(set);
    }
  }
  for (const GpuSet island : nvlink_islands(routes)) sets.insert(island);
  const std::set<GpuSet> before = sets;
  for (const GpuSet a : before) {
    for (const GpuSet b : before) sets.insert(a & b);
  }
  sets.erase(0);
  return sets;
}

// Covers the rest by sets, the first GPU of the rest first.
void cover(GpuSet rest, const std::vector<GpuSet>& sets, std::size_t most,
           std::vector<GpuSet>& chosen, std::vector<std::vector<GpuSet>>& found) {
  if (found.size() >= most) return;
  if (rest == 0) return found.push_back(chosen);
  for (const GpuSet set : sets) {
    if ((set & ~rest) != 0 || std::countr_zero(set) != std::countr_zero(rest)) continue;
    chosen.push_back(set);
    cover(rest & ~set, sets, most, chosen, found);
    chosen.pop_back();
  }
}

}  // namespace

Rings::Rings(const Routes& routes) : routes_(routes), gpus_(routes.host().all(Kind::kGpu)) {}

const std::vector<VertexId>& Rings::ring(GpuSet set) {
  const auto known = known_.find(set);
  if (known != known_.end()) return known->second;
  std::vector<VertexId> members;
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    if ((set & bit(i)) != 0) members.push_back(gpus_[i]);
  }
  return known_[set] = best(std::move(members));
}

std::vector<VertexId> Rings::best(std::vector<VertexId> members) const {
  if (members.size() > kMostOrdered) {
    std::sort(members.begin(), members.end(), [&](VertexId a, VertexId b) {
      return path_of(routes_.host(), a) < path_of(routes_.host(), b);
    });
    return members;
  }
  if (members.size() < 3) return members;
  std::vector<VertexId> best = members;
  Cost least;
  do {
    const Cost cost = cost_of(routes_, {group_of(routes_, members)});
    if (!least.loads.empty() && !is_better(cost, least)) continue;
    best = members;
    least = cost;
  } while (std::next_permutation(members.begin() + 1, members.end()));
  return best;
}

Divisions divisions(const Routes& routes, std::size_t most, bool only_usual) {
  const std::size_t gpus = routes.host().all(Kind::kGpu).size();
  Divisions result;
  std::vector<GpuSet> sets;
  result.is_every_way = gpus <= kMostOrdered && !only_usual;
  if (result.is_every_way) {
    for (GpuSet set = all_of(gpus); set > 0; --set) sets.push_back(set);
  } else {
    const auto natural = natural_sets(routes);
    sets.assign(natural.rbegin(), natural.rend());
  }
  std::vector<GpuSet> chosen;
  cover(all_of(gpus), sets, most, chosen, result.all);
  if (result.all.size() == most) result.is_every_way = false;
  return result;
}

std::vector<GpuSet> sets_by_parent(const Host& host) {
  const auto gpus = host.all(Kind::kGpu);
  std::map<VertexId, GpuSet> sets;
  for (std::size_t i = 0; i < gpus.size(); ++i) sets[host.vertices[gpus[i]].under] |= bit(i);
  std::vector<GpuSet> found;
  for (const auto& [parent, set] : sets) found.push_back(set);
  return found;
}

std::vector<GpuSet> nvlink_islands(const Routes& routes) {
  const auto gpus = routes.host().all(Kind::kGpu);
  std::vector<GpuSet> islands;
  GpuSet seen = 0;
  for (std::size_t first = 0; first < gpus.size(); ++first) {
    if ((seen & bit(first)) != 0) continue;
    GpuSet island = bit(first), before = 0;
    while (island != before) {
      before = island;
      for (std::size_t i = 0; i < gpus.size(); ++i) {
        for (std::size_t j = 0; j < gpus.size(); ++j) {
          const bool joined =
              routes.has_nvlink(gpus[i], gpus[j]) && routes.has_nvlink(gpus[j], gpus[i]);
          if ((before & bit(i)) != 0 && joined) island |= bit(j);
        }
      }
    }
    islands.push_back(island);
    seen |= island;
  }
  return islands;
}

}  // namespace tally::host
