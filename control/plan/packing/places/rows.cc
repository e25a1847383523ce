#include "control/plan/packing/places/rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

namespace tally::plan {
namespace {

// A vertex, or all vertices that can change places with it: what it is, and two numbers.
using Place = std::tuple<int, std::size_t, std::size_t>;

std::vector<Place> places_of(const Network& network, const Symmetry& symmetry) {
  constexpr int kMachine = 0, kHub = 1, kOther = 2;
  std::vector<Place> places;
  for (std::size_t id = 0; id < network.vertices.size(); ++id) places.emplace_back(kOther, id, 0);
  for (const Rack& rack : symmetry.racks) {
    if (rack.hub) places[*rack.hub] = {kHub, rack.set, 0};
    for (std::size_t i = 0; i < rack.groups.size(); ++i) {
      for (const VertexId id : symmetry.groups[rack.groups[i]].machines) {
        places[id] = {kMachine, rack.set, i};
      }
    }
  }
  return places;
}

// By machine: the slowest and only link one way, where it has just one; otherwise no limit.
std::vector<double> only_links(const Network& network, bool outward) {
  std::vector<double> speeds(network.machines(), 0);
  std::vector<int> count(network.machines(), 0);
  for (const Link& link : network.links) {
    const VertexId end = outward ? link.from : link.to;
    if (end >= speeds.size()) continue;
    speeds[end] = link.capacity;
    ++count[end];
  }
  for (std::size_t id = 0; id < speeds.size(); ++id) {
    if (count[id] != 1) speeds[id] = std::numeric_limits<double>::infinity();
  }
  return speeds;
}

}  // namespace

Rows::Rows(const Passages& passages, const Symmetry& symmetry, bool two_way)
    : passages_(passages), row_of_(passages.size(), kNoRow) {
  const Network& network = passages.network();
  const auto places = places_of(network, symmetry);
  const auto only_out = only_links(network, true), only_in = only_links(network, false);
  std::map<std::tuple<Passage, Place, Place>, std::uint32_t> rows;
  for (std::size_t i = 0; i < passages.size(); ++i) {
    auto [passage, from, to, capacity] = passages.at(i);
    if (passage == Passage::kOut && only_out[from] <= capacity) continue;
    if (passage == Passage::kIn && only_in[from] <= capacity) continue;
    if (two_way && passage == Passage::kOut) passage = Passage::kIn;
    Place first = places[from], second = places[to];
    if (two_way && second < first) std::swap(first, second);
    const auto next = static_cast<std::uint32_t>(rows.size());
    row_of_[i] = rows.emplace(std::tuple(passage, first, second), next).first->second;
    if (row_of_[i] == next) capacities_.push_back(0);
    capacities_[row_of_[i]] += capacity;
  }
}

Use Rows::use_of(const Tree& tree) const {
  std::vector<double> bytes(passages_.size()), sums(size());
  passages_.add(tree.up, true, 1, bytes);
  passages_.add(tree.way_down(), false, 1, bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (row_of_[i] != kNoRow) sums[row_of_[i]] += bytes[i];
  }
  Use use;
  for (std::size_t row = 0; row < sums.size(); ++row) {
    if (sums[row] > 0) use.push_back({row, sums[row] / capacities_[row]});
  }
  return use;
}

std::vector<double> Rows::passage_prices(std::span<const double> prices) const {
  double most = 0;
  for (std::size_t row = 0; row < size(); ++row)
    most = std::max(most, prices[row] / capacities_[row]);
  constexpr int kBits = 36;
  const double unit = std::ldexp(1.0, std::ilogb(most) - kBits);
  std::vector<double> of_passages(row_of_.size(), 0);
  for (std::size_t i = 0; i < row_of_.size(); ++i) {
    if (row_of_[i] == kNoRow) continue;
    const double price = std::max(0.0, prices[row_of_[i]]) / capacities_[row_of_[i]];
    of_passages[i] = std::floor(price / unit) * unit;
  }
  return of_passages;
}

}  // namespace tally::plan
