#include "control/sim/core/tree_set.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "control/plan/model/load.h"
#include "dataplane/partition/partition.h"

namespace tally::simulator {

std::uint64_t TreeSet::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
}

std::vector<double> TreeSet::shares() const {
  const auto all = static_cast<double>(total());
  std::vector<double> shares;
  for (const std::uint64_t one : bytes) shares.push_back(static_cast<double>(one) / all);
  return shares;
}

std::vector<std::uint64_t> divide(std::uint64_t bytes, std::span<const double> shares) {
  std::vector<std::uint64_t> parts;
  std::vector<double> remainders;
  std::uint64_t left = bytes;
  for (const double share : shares) {
    const double exact = share * static_cast<double>(bytes);
    parts.push_back(std::min(static_cast<std::uint64_t>(exact), left));
    remainders.push_back(exact - std::floor(exact));
    left -= parts.back();
  }
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return remainders[a] > remainders[b]; });
  for (std::size_t i = 0; left > 0; i = (i + 1) % order.size(), --left) ++parts[order[i]];
  return parts;
}

TreeSet trees_of_plan(const plan::Domain& domain, std::uint64_t bytes, std::uint64_t chunk,
                      std::uint32_t tag) {
  const plan::SizeClass& one = plan::size_class_of(domain, bytes);
  std::vector<std::uint32_t> weights;
  for (const plan::Tree& tree : one.trees) weights.push_back(tree.weight);
  const std::uint64_t split = one.is_divided() ? 0 : protocol::kAnySize;
  const protocol::Partition partition = protocol::weighted_partition(weights, split);
  const protocol::Operand operand{.tag = tag, .count = (bytes + kElementBytes - 1) / kElementBytes};
  TreeSet set{one.trees, std::vector<std::uint64_t>(weights.size()), chunk == 0 ? one.chunk : chunk,
              one.window, protocol::home_tree(partition, operand)};
  for (std::uint32_t i = 0; i < protocol::part_count(partition, operand); ++i) {
    const protocol::Part part = protocol::cut(partition, operand, i);
    set.bytes[part.tree] += part.count * kElementBytes;
  }
  return set;
}

std::vector<Tile> tiles_of(const TreeSet& set) {
  struct Place {
    std::uint32_t tree = 0;
    std::uint64_t index = 0;
    std::uint64_t count = 0;
  };
  std::vector<Place> places;
  for (std::uint32_t tree = 0; tree < set.bytes.size(); ++tree) {
    const std::uint64_t count = (set.bytes[tree] + set.chunk - 1) / set.chunk;
    for (std::uint64_t i = 0; i < count; ++i) places.push_back({tree, i, count});
  }
  std::stable_sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return (2 * a.index + 1) * b.count < (2 * b.index + 1) * a.count;
  });
  std::vector<Tile> tiles;
  for (const Place& place : places) {
    const std::uint64_t before = place.index * set.chunk;
    const std::uint64_t bytes = std::min(set.chunk, set.bytes[place.tree] - before);
    tiles.push_back({place.tree, static_cast<std::uint32_t>(bytes)});
  }
  return tiles;
}

}  // namespace tally::simulator
