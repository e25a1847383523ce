#include "control/plan/packing/trees/images.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tally::plan {
namespace {

// Indices by ascending value; of equal values by index.
std::vector<std::size_t> ascending(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  return order;
}

// Pairs the i-th largest of `large` with the i-th smallest of `small`. Returns by index of `large`
// the index of `small`.
std::vector<std::size_t> pair_up(std::vector<double> large, const std::vector<double>& small) {
  for (double& value : large) value = -value;
  const auto from = ascending(large), to = ascending(small);
  std::vector<std::size_t> pairs(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) pairs[from[i]] = to[i];
  return pairs;
}

// About `count` indices, each as often as its share demands and at least once, evenly mixed.
std::vector<std::size_t> order_by_share(std::span<const double> shares, std::size_t count) {
  std::vector<std::size_t> order;
  std::vector<double> due(shares.begin(), shares.end());
  for (std::size_t step = 0; step < count; ++step) {
    const auto next = std::max_element(due.begin(), due.end());
    order.push_back(static_cast<std::size_t>(next - due.begin()));
    *next -= 1;
    for (std::size_t i = 0; i < due.size(); ++i) due[i] += shares[i];
  }
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (std::find(order.begin(), order.end(), i) == order.end()) order.push_back(i);
  }
  return order;
}

}  // namespace

Images::Images(const Problem& problem)
    : problem_(problem),
      rack_passages_(problem.symmetry().racks.size()),
      machine_passages_(problem.machines()) {
  std::vector<std::size_t> rack_at(problem.network().vertices.size(), SIZE_MAX);
  for (std::size_t rack = 0; rack < rack_passages_.size(); ++rack) {
    const auto hub = problem.symmetry().racks[rack].hub;
    if (hub) rack_at[*hub] = rack;
  }
  for (std::size_t i = 0; i < problem.passages().size(); ++i) {
    const PassagePlace& place = problem.passages().at(i);
    const bool has_machine =
        place.from < machine_passages_.size() || place.to < machine_passages_.size();
    for (const VertexId end : {place.from, place.to}) {
      if (end < machine_passages_.size()) machine_passages_[end].push_back(i);
      if (!has_machine && rack_at[end] != SIZE_MAX) rack_passages_[rack_at[end]].push_back(i);
    }
  }
}

std::vector<double> Images::seconds_of(const Tree& tree) const {
  const Passages& passages = problem_.passages();
  std::vector<double> seconds(passages.size());
  passages.add(tree.up, true, 1, seconds);
  passages.add(tree.way_down(), false, 1, seconds);
  for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] /= passages.capacity(i);
  return seconds;
}

double Images::sum_of(const std::vector<std::size_t>& passages,
                      const std::vector<double>& values) const {
  double sum = 0;
  for (const std::size_t passage : passages) sum += values[passage];
  return sum;
}

Images::Order Images::order_in_set(std::size_t set, std::size_t group,
                                   const std::vector<double>& seconds,
                                   const std::vector<double>& dear) const {
  const Symmetry& symmetry = problem_.symmetry();
  std::vector<double> busy, cost;
  for (const std::size_t rack : symmetry.sets[set]) {
    const auto& machines = symmetry.groups[symmetry.racks[rack].groups[group]].machines;
    busy.resize(machines.size(), 0);
    cost.resize(machines.size(), 0);
    for (std::size_t i = 0; i < machines.size(); ++i) {
      busy[i] += sum_of(machine_passages_[machines[i]], seconds);
      cost[i] += sum_of(machine_passages_[machines[i]], dear);
    }
  }
  return pair_up(busy, cost);
}

Images::Order Images::order_in_group(const Group& from, const Group& to,
                                     const std::vector<double>& seconds,
                                     const std::vector<double>& dear) const {
  std::vector<double> busy, cost;
  for (const VertexId id : from.machines) busy.push_back(sum_of(machine_passages_[id], seconds));
  for (const VertexId id : to.machines) cost.push_back(sum_of(machine_passages_[id], dear));
  return pair_up(busy, cost);
}

// The busiest rack of the tree chooses first. What a place costs is the sum, over the rack's
// passages, of what the tree needs there x what a byte costs there.
std::vector<std::size_t> Images::place_racks(std::size_t set, const std::vector<Order>& orders,
                                             const std::vector<double>& seconds,
                                             const std::vector<double>& dear) const {
  const Symmetry& symmetry = problem_.symmetry();
  const auto& racks = symmetry.sets[set];
  // By rack and entry: first the switch's links, then the machines in order.
  std::vector<std::vector<double>> busy(racks.size()), cost(racks.size());
  std::vector<double> total;
  for (std::size_t i = 0; i < racks.size(); ++i) {
    busy[i].push_back(sum_of(rack_passages_[racks[i]], seconds));
    cost[i].push_back(sum_of(rack_passages_[racks[i]], dear));
    for (std::size_t j = 0; j < orders.size(); ++j) {
      const auto& machines = symmetry.groups[symmetry.racks[racks[i]].groups[j]].machines;
      for (std::size_t k = 0; k < machines.size(); ++k) {
        busy[i].push_back(sum_of(machine_passages_[machines[k]], seconds));
        cost[i].push_back(sum_of(machine_passages_[machines[orders[j][k]]], dear));
      }
    }
    total.push_back(-std::accumulate(busy[i].begin(), busy[i].end(), 0.0));
  }
  std::vector<std::size_t> placed(racks.size());
  std::vector<bool> taken(racks.size(), false);
  for (const std::size_t rack : ascending(total)) {
    std::size_t best = racks.size();
    double least = 0;
    for (std::size_t to = 0; to < racks.size(); ++to) {
      if (taken[to]) continue;
      const double found =
          std::inner_product(busy[rack].begin(), busy[rack].end(), cost[to].begin(), 0.0);
      if (best < racks.size() && found >= least) continue;
      best = to;
      least = found;
    }
    taken[best] = true;
    placed[rack] = racks[best];
  }
  return placed;
}

Tree Images::move(const Tree& tree, const std::vector<double>& dear, Places places) const {
  const Symmetry& symmetry = problem_.symmetry();
  const auto seconds = seconds_of(tree);
  std::vector<VertexId> moved(problem_.machines());
  for (std::size_t set = 0; set < symmetry.sets.size(); ++set) {
    const auto& racks = symmetry.sets[set];
    const std::size_t groups = symmetry.racks[racks.front()].groups.size();
    std::vector<Order> orders;
    for (std::size_t i = 0; i < groups; ++i) {
      orders.push_back(order_in_set(set, i, seconds, dear));
    }
    const auto placed = place_racks(set, orders, seconds, dear);
    for (std::size_t rack = 0; rack < racks.size(); ++rack) {
      for (std::size_t i = 0; i < groups; ++i) {
        const Group& from = symmetry.groups[symmetry.racks[racks[rack]].groups[i]];
        const Group& to = symmetry.groups[symmetry.racks[placed[rack]].groups[i]];
        if (places == Places::kAny) orders[i] = order_in_group(from, to, seconds, dear);
        for (std::size_t j = 0; j < from.machines.size(); ++j) {
          moved[from.machines[j]] = to.machines[orders[i][j]];
        }
      }
    }
  }
  Tree image{tree.weight, Parents(tree.up.size(), kIsAbsent), {}};
  for (std::size_t id = 0; id < moved.size(); ++id) {
    const std::int32_t parent = tree.up[id];
    image.up[moved[id]] =
        parent < 0 ? parent : static_cast<std::int32_t>(moved[static_cast<std::size_t>(parent)]);
  }
  return image;
}

Images::Spread Images::spread(std::span<const Tree> trees, std::span<const double> shares,
                              std::size_t count) const {
  const auto order = order_by_share(shares, count);
  std::vector<double> times(shares.size(), 0);
  for (const std::size_t i : order) ++times[i];
  std::vector<double> busy(problem_.passages().size(), 0);
  Spread spread;
  std::map<Parents, std::size_t> known;  // the index of each tree
  for (const std::size_t i : order) {
    Tree image = move(trees[i], busy, Places::kAlikeInRacks);
    const double share = shares[i] / times[i];
    const auto seconds = seconds_of(image);
    for (std::size_t passage = 0; passage < busy.size(); ++passage) {
      busy[passage] += share * seconds[passage];
    }
    const auto [at, is_new] = known.emplace(image.up, spread.trees.size());
    if (is_new) {
      spread.trees.push_back(std::move(image));
      spread.shares.push_back(0);
    }
    spread.shares[at->second] += share;
  }
  return spread;
}

Result<Priced> ImagePricing::price(const std::vector<double>& prices) {
  Priced priced;
  for (const Tree& tree : trees_) {
    for (const Places places : {Places::kAlikeInRacks, Places::kAny}) {
      priced.trees.push_back(images_.move(tree, prices, places));
    }
  }
  return priced;
}

}  // namespace tally::plan
