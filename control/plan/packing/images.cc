#include "control/plan/packing/images.h"

#include <algorithm>
#include <numeric>
#include <set>

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

double Images::of_machine(VertexId id, const std::vector<double>& values) const {
  double sum = 0;
  for (const std::size_t passage : machine_passages_[id]) sum += values[passage];
  return sum;
}

double Images::of_rack(std::size_t rack, const std::vector<double>& values) const {
  double sum = 0;
  for (const std::size_t passage : rack_passages_[rack]) sum += values[passage];
  for (const std::size_t group : problem_.symmetry().racks[rack].groups) {
    const Group& one = problem_.symmetry().groups[group];
    if (one.is_worker) continue;
    for (const VertexId id : one.machines) sum += of_machine(id, values);
  }
  return sum;
}

std::vector<std::size_t> Images::place_racks(const std::vector<double>& seconds,
                                             const std::vector<double>& dear) const {
  const Symmetry& symmetry = problem_.symmetry();
  std::vector<std::size_t> placed(symmetry.racks.size());
  for (const auto& set : symmetry.sets) {
    std::vector<double> busy, cost;
    for (const std::size_t rack : set) {
      busy.push_back(of_rack(rack, seconds));
      cost.push_back(of_rack(rack, dear));
    }
    const auto pairs = pair_up(busy, cost);
    for (std::size_t i = 0; i < set.size(); ++i) placed[set[i]] = set[pairs[i]];
  }
  return placed;
}

Tree Images::move(const Tree& tree, const std::vector<double>& dear) const {
  const Symmetry& symmetry = problem_.symmetry();
  const auto seconds = seconds_of(tree);
  const auto placed = place_racks(seconds, dear);
  std::vector<VertexId> moved(problem_.machines());
  for (std::size_t rack = 0; rack < placed.size(); ++rack) {
    for (std::size_t i = 0; i < symmetry.racks[rack].groups.size(); ++i) {
      const auto& from = symmetry.groups[symmetry.racks[rack].groups[i]].machines;
      const auto& to = symmetry.groups[symmetry.racks[placed[rack]].groups[i]].machines;
      std::vector<double> busy, cost;
      for (const VertexId id : from) busy.push_back(of_machine(id, seconds));
      for (const VertexId id : to) cost.push_back(of_machine(id, dear));
      const auto pairs = pair_up(busy, cost);
      for (std::size_t j = 0; j < from.size(); ++j) moved[from[j]] = to[pairs[j]];
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

std::vector<Tree> Images::spread(std::span<const Tree> trees, std::span<const double> shares,
                                 std::size_t count) const {
  std::vector<double> busy(problem_.passages().size(), 0);
  std::vector<Tree> images;
  std::set<Parents> known;
  for (std::size_t round = 0; round < count; ++round) {
    for (std::size_t i = 0; i < trees.size(); ++i) {
      Tree image = move(trees[i], busy);
      const auto seconds = seconds_of(image);
      for (std::size_t passage = 0; passage < busy.size(); ++passage) {
        busy[passage] += shares[i] * seconds[passage];
      }
      if (known.insert(image.up).second) images.push_back(std::move(image));
    }
  }
  return images;
}

Result<Priced> ImagePricing::price(const std::vector<double>& prices) {
  Priced priced;
  for (const Tree& tree : trees_) priced.trees.push_back(images_.move(tree, prices));
  return priced;
}

}  // namespace tally::plan
