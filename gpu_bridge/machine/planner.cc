#include "gpu_bridge/machine/planner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "base/lp/lp.h"
#include "gpu_bridge/machine/rings.h"

namespace tally::host {
namespace {

constexpr std::size_t kMostDivisions = 5000;  // 8 GPUs have 4140
// With more places, each NIC's bytes stay in the memory next to it, and fewer divisions are
// compared. A program grows with the number of places.
constexpr std::size_t kMostPlaces = 4;
constexpr std::size_t kFewDivisions = 200;
constexpr std::size_t kMostRoots = 4096;  // ways to choose one GPU of each group
// Smaller parts of the bytes are rounding. Where a place has more than kNoPlace, the shares of each
// group there sum to more than lp::kTolerance, so one of at most kMaxGpus shares is more than
// kNoShare. So all groups have the same places.
constexpr double kNoPlace = 2 * lp::kTolerance;
constexpr double kNoShare = 1e-12;
static_assert(kMaxGpus * kNoShare < lp::kTolerance);

struct Place {
  VertexId memory = kNone;
  VertexId nic = kNone;
};
// What part of a GPU's share goes to each place, by VertexId of the GPU.
using Spread = std::vector<std::vector<double>>;

class Planner {
 public:
  explicit Planner(const Routes& routes) : routes_(routes), rings_(routes) {
    add_places();
    add_spreads();
  }

  HostPlan plan();

 private:
  using Sets = std::vector<GpuSet>;

  void add_places();
  void add_spreads();
  std::vector<Group> grouped(const Sets& sets);
  lp::Program program_of(const std::vector<Group>& groups) const;

  Strategy even(const Sets& sets);
  // Returns nullopt when there are too many ways to choose the GPUs.
  std::optional<Strategy> at_roots(const Sets& sets);
  std::optional<Strategy> balanced(const Sets& sets);
  Strategy simplest(const Sets& sets, Strategy strategy);
  Strategy best_spread(std::vector<Group> groups,
                       const std::vector<std::vector<double>>& shares) const;

  void add_named(HostPlan& plan);

  const Routes& routes_;
  Rings rings_;
  std::vector<Place> places_;
  std::vector<Spread> spreads_;
  // The least time of the named strategies so far, in seconds per byte. In such units the times of
  // programs are near 1, where the solver's tolerances are small.
  double unit_ = 1;
};

VertexId numa_above(const Host& host, VertexId device) {
  while (host.vertices[device].kind != Kind::kNuma) device = host.vertices[device].under;
  return device;
}

// Whether the shares of each group have the same sum at each memory and NIC.
bool places_agree(const std::vector<Group>& groups) {
  std::map<std::pair<VertexId, VertexId>, double> first;
  for (const Share& share : groups[0].shares) first[{share.memory, share.nic}] += share.weight;
  return std::all_of(groups.begin() + 1, groups.end(), [&](const Group& group) {
    auto rest = first;
    for (const Share& share : group.shares) rest[{share.memory, share.nic}] -= share.weight;
    return std::all_of(rest.begin(), rest.end(),
                       [](const auto& one) { return std::abs(one.second) <= kEqual; });
  });
}

void Planner::add_places() {
  const Host& host = routes_.host();
  const auto nodes = host.all(Kind::kNuma), nics = host.all(Kind::kNic);
  for (const VertexId nic : nics) {
    const VertexId near = numa_above(host, nic);
    places_.push_back({near, nic});
    for (const VertexId memory : nodes) {
      if (memory != near && nodes.size() * nics.size() <= kMostPlaces)
        places_.push_back({memory, nic});
    }
  }
}

void Planner::add_spreads() {
  const Host& host = routes_.host();
  const auto nics = host.all(Kind::kNic);
  const auto add = [&](const std::vector<double>& parts) {
    spreads_.emplace_back(host.vertices.size(), parts);
  };
  for (std::size_t i = 0; i < places_.size(); ++i) {
    std::vector<double> one(places_.size());
    one[i] = 1;
    add(one);
  }
  if (nics.size() == 1) return;
  const auto is_near = [&](const Place& place) {
    return place.memory == numa_above(host, place.nic);
  };
  std::vector<double> over_nics(places_.size());
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (is_near(places_[i])) over_nics[i] = 1.0 / static_cast<double>(nics.size());
  }
  add(over_nics);
  // Each GPU by the NICs that are the fewest hops away, in equal parts.
  Spread nearest(host.vertices.size(), std::vector<double>(places_.size()));
  for (const VertexId gpu : host.all(Kind::kGpu)) {
    const auto hops = [&](VertexId nic) { return routes_.pcie(gpu, nic).size(); };
    std::size_t fewest = hops(nics[0]);
    for (const VertexId nic : nics) fewest = std::min(fewest, hops(nic));
    const auto count =
        std::count_if(nics.begin(), nics.end(), [&](VertexId nic) { return hops(nic) == fewest; });
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (!is_near(places_[i]) || hops(places_[i].nic) != fewest) continue;
      nearest[gpu][i] = 1.0 / static_cast<double>(count);
    }
  }
  spreads_.push_back(nearest);
}

std::vector<Group> Planner::grouped(const Sets& sets) {
  std::vector<Group> groups;
  for (const GpuSet set : sets) groups.push_back(group_of(routes_, rings_.ring(set)));
  return groups;
}

// Gives each group's GPUs these shares, with the best spread over the places.
Strategy Planner::best_spread(std::vector<Group> groups,
                              const std::vector<std::vector<double>>& shares) const {
  Strategy best;
  for (const Spread& spread : spreads_) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      groups[g].shares.clear();
      for (std::size_t p = 0; p < places_.size(); ++p) {
        for (std::size_t i = 0; i < groups[g].ring.size(); ++i) {
          const double weight = spread[groups[g].ring[i]][p] * shares[g][i];
          if (weight <= 0) continue;
          groups[g].shares.push_back(
              {groups[g].ring[i], places_[p].memory, places_[p].nic, weight});
        }
      }
    }
    if (!places_agree(groups)) continue;
    const Cost cost = cost_of(routes_, groups);
    if (best.groups.empty() || is_better(cost, best.cost)) best = {{}, groups, cost};
  }
  return best;
}

Strategy Planner::even(const Sets& sets) {
  auto groups = grouped(sets);
  std::vector<std::vector<double>> shares;
  for (const Group& group : groups) {
    shares.emplace_back(group.ring.size(), 1.0 / static_cast<double>(group.ring.size()));
  }
  return best_spread(std::move(groups), shares);
}

std::optional<Strategy> Planner::at_roots(const Sets& sets) {
  auto groups = grouped(sets);
  std::size_t ways = 1;
  for (const Group& group : groups) {
    ways *= group.ring.size();
    if (ways > kMostRoots) return std::nullopt;
  }
  Strategy best;
  for (std::size_t way = 0; way < ways; ++way) {
    std::vector<std::vector<double>> shares;
    std::size_t rest = way;
    for (const Group& group : groups) {
      shares.emplace_back(group.ring.size()).at(rest % group.ring.size()) = 1;
      rest /= group.ring.size();
    }
    Strategy one = best_spread(groups, shares);
    if (best.groups.empty() || is_better(one.cost, best.cost)) best = std::move(one);
  }
  return best;
}

// The variables are the shares by group, place and GPU; then what part of the bytes goes to each
// place, which is the same in all groups; and last the time, in units of `unit_`.
lp::Program Planner::program_of(const std::vector<Group>& groups) const {
  const std::size_t places = places_.size(), resources = routes_.resources().size();
  std::size_t members = 0;
  for (const Group& group : groups) members += group.ring.size();
  const std::size_t at_place = members * places, time = at_place + places;
  lp::Program program;
  program.variables.resize(time + 1);
  program.variables[time].cost = 1;

  lp::Row whole{{}, 1, 1};
  for (std::size_t place = 0; place < places; ++place) whole.terms.push_back({at_place + place, 1});
  program.rows.push_back(whole);

  std::vector<lp::Row> busy(resources);
  std::vector<double> loads(resources);
  for (const Group& group : groups) add_ring(routes_, group, loads);
  const auto in_units = [&](std::size_t resource, double load) {
    return load / routes_.resources()[resource].speed / unit_;
  };
  for (std::size_t r = 0; r < resources; ++r) busy[r].upper = -in_units(r, loads[r]);
  std::size_t variable = 0;
  for (const Group& group : groups) {
    for (std::size_t place = 0; place < places; ++place) {
      lp::Row sum{{{at_place + place, -1}}, 0, 0};
      for (const VertexId gpu : group.ring) {
        loads.assign(resources, 0);
        add_share(routes_, group, {gpu, places_[place].memory, places_[place].nic, 1},
                  groups.size(), &group == &groups.front(), loads);
        for (std::size_t r = 0; r < resources; ++r) {
          if (loads[r] != 0) busy[r].terms.push_back({variable, in_units(r, loads[r])});
        }
        sum.terms.push_back({variable++, 1});
      }
      program.rows.push_back(sum);
    }
  }
  for (lp::Row& row : busy) {
    if (row.terms.empty() && row.upper == 0) continue;
    row.terms.push_back({time, -1});
    program.rows.push_back(std::move(row));
  }
  return program;
}

// The shares of the least time; nullopt when the build has no Clp, or Clp does not find them.
std::optional<Strategy> Planner::balanced(const Sets& sets) {
  Strategy strategy{{}, grouped(sets), {}};
  const auto solution = lp::minimize(program_of(strategy.groups));
  if (!solution || solution->answer != lp::Answer::kOptimal) return std::nullopt;
  const std::vector<double>& values = solution->values;
  const std::size_t at_place = values.size() - 1 - places_.size();
  std::size_t variable = 0;
  for (Group& group : strategy.groups) {
    for (std::size_t place = 0; place < places_.size(); ++place) {
      for (const VertexId gpu : group.ring) {
        const double weight = values[variable++];
        if (weight <= kNoShare || values[at_place + place] <= kNoPlace) continue;
        group.shares.push_back({gpu, places_[place].memory, places_[place].nic, weight});
      }
    }
  }
  strategy.cost = cost_of(routes_, strategy.groups);
  return strategy;
}

// The strategy, or simpler shares of the same groups where they are better: mostly because they
// take the same time with fewer copies.
Strategy Planner::simplest(const Sets& sets, Strategy strategy) {
  Strategy equal = even(sets);
  if (is_better(equal.cost, strategy.cost)) strategy = std::move(equal);
  std::optional<Strategy> roots = at_roots(sets);
  if (roots && is_better(roots->cost, strategy.cost)) strategy = std::move(*roots);
  return strategy;
}

void Planner::add_named(HostPlan& plan) {
  const auto gpus = rings_.gpus();
  Sets single, all(1);
  for (std::size_t i = 0; i < gpus; ++i) {
    single.push_back(GpuSet{1} << i);
    all[0] |= single.back();
  }
  const auto add = [&](std::string_view name, Strategy strategy) {
    strategy.name = name;
    unit_ = plan.named.empty() ? strategy.cost.tau : std::min(unit_, strategy.cost.tau);
    plan.named.push_back(std::move(strategy));
  };
  add("none", even(single));
  if (gpus == 1) return;
  const Sets parents = sets_by_parent(routes_.host()), islands = nvlink_islands(routes_);
  if (parents.size() < gpus) add("CPU-assisted", even(parents));
  if (islands.size() > 1 && islands.size() < gpus) {
    add("NVLink islands", even(islands));
    if (auto best = balanced(islands)) {
      add("NVLink islands, best shares", simplest(islands, std::move(*best)));
    }
  }
  if (parents.size() > 1 || islands.size() == 1) add("reduce-scatter", even(all));
  add("reduce", *at_roots(all));
  if (auto best = balanced(all)) add("reduce-scatter, best shares", std::move(*best));
}

HostPlan Planner::plan() {
  HostPlan plan;
  add_named(plan);
  const bool few = places_.size() <= kMostPlaces;
  const Divisions ways = divisions(routes_, few ? kMostDivisions : kFewDivisions, !few);
  plan.divisions = ways.all.size();
  plan.is_every_way = ways.is_every_way;
  // The ways whose times are equal to the least time so far, or were when they were added.
  std::vector<std::pair<const Sets*, Strategy>> fastest;
  double least = std::numeric_limits<double>::infinity();
  for (const Sets& sets : ways.all) {
    std::optional<Strategy> one = balanced(sets);
    if (!one) {
      ++plan.unsolved;
      one = even(sets);
    }
    if (one->cost.tau > least * (1 + kEqual)) continue;
    least = std::min(least, one->cost.tau);
    fastest.emplace_back(&sets, std::move(*one));
  }
  Strategy best;
  for (const Strategy& named : plan.named) {
    if (best.groups.empty() || is_better(named.cost, best.cost)) best = named;
  }
  for (auto& [sets, strategy] : fastest) {
    if (strategy.cost.tau > least * (1 + kEqual)) continue;
    Strategy one = simplest(*sets, std::move(strategy));
    if (is_better(one.cost, best.cost)) best = std::move(one);
  }
  plan.chosen = std::move(best);
  return plan;
}

}  // namespace

HostPlan plan_host(const Routes& routes) {
  return Planner(routes).plan();
}

}  // namespace tally::host
