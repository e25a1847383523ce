#include "control/plan/advice/bottleneck.h"

#include <algorithm>
#include <array>

#include "control/plan/model/dual_bound.h"

namespace tally::plan {

std::string_view plural_name(PlaceKind kind) {
  static constexpr std::array<std::string_view, 5> kNames = {
      "links of machines", "links between machines", "links between switches", "NICs", "sums"};
  return kNames[static_cast<std::size_t>(kind)];
}

PlaceKind kind_of(const Network& network, Passage passage, VertexId from, VertexId to) {
  if (passage == Passage::kSum) return PlaceKind::kSum;
  if (passage != Passage::kLink) return PlaceKind::kNic;
  const bool from_switch = network.vertices[from].role == Role::kSwitch;
  const bool to_switch = network.vertices[to].role == Role::kSwitch;
  if (from_switch != to_switch) return PlaceKind::kMachineLink;
  return from_switch ? PlaceKind::kSwitchLink : PlaceKind::kMachinePair;
}

Bottleneck find_bottleneck(Routes& routes, const SizeClass& size_class) {
  const Network& network = routes.network();
  Bottleneck found{evaluate(routes, size_class), {}, {}};
  const std::vector<Load>& loads = found.load.loads;
  found.places = distinct_loads(found.load, network);
  std::stable_sort(found.places.begin(), found.places.end(), [&](std::size_t a, std::size_t b) {
    return loads[a].seconds() > loads[b].seconds();
  });
  for (const std::size_t index : found.places) {
    const PlaceKind kind =
        kind_of(network, loads[index].passage, loads[index].from, loads[index].to);
    auto known = std::find_if(found.kinds.begin(), found.kinds.end(),
                              [kind](const KindLoad& one) { return one.kind == kind; });
    if (known == found.kinds.end()) {
      known = found.kinds.insert(known, KindLoad{.kind = kind, .busiest = index});
    }
    ++known->places;
    if (found.busy(index) >= kFull) ++known->full;
    known->mean_busy += found.busy(index);
  }
  for (KindLoad& one : found.kinds) one.mean_busy /= static_cast<double>(one.places);
  std::stable_sort(found.kinds.begin(), found.kinds.end(), [](const auto& a, const auto& b) {
    return a.full * b.places > b.full * a.places;
  });
  return found;
}

std::vector<double> bound_shares(const Passages& passages, std::span<const DualValue> dual) {
  std::vector<double> shares = prices_by_passage(passages, dual).value();
  double all = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) all += shares[i] *= passages.capacity(i);
  for (double& share : shares) share /= all;
  return shares;
}

}  // namespace tally::plan
