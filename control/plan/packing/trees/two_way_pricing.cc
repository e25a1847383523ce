#include "control/plan/packing/trees/two_way_pricing.h"

#include <fmt/format.h>

#include <limits>

#include "control/plan/packing/trees/rooting.h"

namespace tally::plan {
namespace {

// Pairs of groups over all choices together: a fraction of a second. The check of certificates
// stops at a like number (least_tree.cc), so that it can confirm what is found here.
constexpr double kMostPairs = 1e8;

}  // namespace

TwoWayPricing::TwoWayPricing(const Problem& problem, std::uint32_t max_height, Helpers helpers)
    : problem_(problem), max_height_(max_height) {
  const auto groups = static_cast<double>(problem.symmetry().groups.size());
  tries_all_ = helpers == Helpers::kAllSetsIfFew &&
               number_of_choices(problem.symmetry()) * groups * groups <= kMostPairs;
}

Square TwoWayPricing::edge_prices(const std::vector<double>& prices) const {
  const auto& groups = problem_.symmetry().groups;
  Square edges(groups.size(), std::numeric_limits<double>::infinity());
  for (std::size_t a = 0; a < groups.size(); ++a) {
    for (std::size_t b = a; b < groups.size(); ++b) {
      const VertexId from = groups[a].machines.front(), to = groups[b].machines.back();
      double price = 0;
      const auto add = [&](std::size_t passage) { price += prices[passage]; };
      const bool found = from != to && problem_.passages().cross(from, to, add) &&
                         problem_.passages().cross(to, from, add);
      if (found) edges.at(a, b) = edges.at(b, a) = price;
    }
  }
  return edges;
}

Counts TwoWayPricing::best_of_all(const GroupTree& tree) const {
  Counts best = workers_only(problem_.symmetry());
  double least = tree.price(best);
  for_each_choice(problem_.symmetry(), [&](const Counts& counts) {
    const double price = tree.price(counts);
    if (price >= least) return;
    least = price;
    best = counts;
  });
  return best;
}

// Adds or drops the machine that makes the tree cheapest, as long as it becomes cheaper.
Counts TwoWayPricing::descend(const GroupTree& tree, Counts counts) const {
  const auto& groups = problem_.symmetry().groups;
  for (double least = tree.price(counts);;) {
    Counts best;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (groups[i].is_worker) continue;
      const std::size_t count = counts[i];
      for (const bool adds : {false, true}) {
        if (adds ? count == groups[i].machines.size() : count == 0) continue;
        counts[i] = adds ? count + 1 : count - 1;
        const double price = tree.price(counts);
        if (price < least) {
          least = price;
          best = counts;
        }
      }
      counts[i] = count;
    }
    if (best.empty()) return counts;
    counts = best;
  }
}

Counts TwoWayPricing::best_nearby(const GroupTree& tree) const {
  Counts all;
  for (const Group& group : problem_.symmetry().groups) all.push_back(group.machines.size());
  const Counts from_none = descend(tree, workers_only(problem_.symmetry()));
  const Counts from_all = descend(tree, all);
  return tree.price(from_all) < tree.price(from_none) ? from_all : from_none;
}

Result<Priced> TwoWayPricing::price(const std::vector<double>& prices) {
  const Square edges = edge_prices(prices);
  const GroupTree tree(problem_.symmetry(), edges);
  const Counts counts = tries_all_ ? best_of_all(tree) : best_nearby(tree);
  const double price = tree.price(counts);
  if (!(price < std::numeric_limits<double>::infinity())) {
    return invalid(fmt::format(
        "no tree joins the {} workers: some have no route to others, both ways, over switches or "
        "helpers; add links",
        problem_.workers().size()));
  }
  const auto& group_of = problem_.symmetry().group_of;
  const auto price_of = [&](VertexId a, VertexId b) { return edges.at(group_of[a], group_of[b]); };
  Tree cheapest;
  cheapest.up = root_at_centre(problem_.machines(), tree.edges(counts), problem_.is_worker(),
                               max_height_, price_of);
  return Priced{{std::move(cheapest)}, tries_all_ ? price : tree.price_of_joins(), tries_all_};
}

}  // namespace tally::plan
