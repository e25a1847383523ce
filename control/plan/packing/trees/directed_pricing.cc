#include "control/plan/packing/trees/directed_pricing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "control/plan/packing/trees/group_tree.h"
#include "control/plan/packing/trees/rooting.h"

namespace tally::plan {
namespace {

constexpr double kNoPrice = std::numeric_limits<double>::infinity();
// The check of certificates tries so many helpers too (dual_bound.cc).
constexpr std::size_t kMostHelpers = 10;
constexpr std::size_t kMostRoots = 4;  // to which helpers are added one by one
constexpr double kMostSteps = 5e7;     // a fraction of a second

std::vector<VertexId> members_of(const std::vector<bool>& in) {
  std::vector<VertexId> members;
  for (VertexId id = 0; id < in.size(); ++id) {
    if (in[id]) members.push_back(id);
  }
  return members;
}

bool is_cheaper(const std::optional<Arborescence>& a, const std::optional<Arborescence>& b) {
  return a && (!b || a->price < b->price);
}

}  // namespace

Square edge_prices(const Passages& passages, const std::vector<double>& prices, bool up) {
  const std::size_t machines = passages.network().machines();
  Square edges(machines, kNoPrice);
  for (VertexId child = 0; child < machines; ++child) {
    for (VertexId parent = 0; parent < machines; ++parent) {
      const auto sums = up ? passages.sum(parent) : std::nullopt;
      double price = sums ? prices[*sums] : 0;
      const bool found = passages.cross(up ? child : parent, up ? parent : child,
                                        [&](std::size_t passage) { price += prices[passage]; });
      if (found) edges.at(child, parent) = price;
    }
  }
  return edges;
}

DirectedPricing::DirectedPricing(const Problem& problem, std::uint32_t max_height, WayDown way)
    : problem_(problem), max_height_(max_height), way_(way) {
  for (VertexId id = 0; id < problem.machines(); ++id) {
    if (!problem.is_worker()[id]) helpers_.push_back(id);
  }
  const double sets = std::pow(2, static_cast<double>(helpers_.size()));
  const double steps = sets * std::pow(static_cast<double>(problem.machines()), 3);
  tries_all_ = helpers_.size() <= kMostHelpers && steps <= kMostSteps;
}

// Adds or drops the helper that makes the tree cheapest, as long as it becomes cheaper.
std::optional<Arborescence> DirectedPricing::descend(const Square& prices, VertexId root,
                                                     std::vector<bool> in) const {
  auto best = cheapest_arborescence(prices, members_of(in), root);
  for (;;) {
    std::size_t changed = in.size();
    for (const VertexId helper : helpers_) {
      if (helper == root) continue;
      in[helper] = !in[helper];
      auto found = cheapest_arborescence(prices, members_of(in), root);
      in[helper] = !in[helper];
      if (!is_cheaper(found, best)) continue;
      best = std::move(found);
      changed = helper;
    }
    if (changed == in.size()) return best;
    in[changed] = !in[changed];
  }
}

std::optional<Arborescence> DirectedPricing::best_tree(const Square& prices, VertexId root) const {
  std::vector<bool> workers = problem_.is_worker();
  workers[root] = true;
  if (!tries_all_) {
    auto from_none = descend(prices, root, workers);
    auto from_all = descend(prices, root, std::vector<bool>(problem_.machines(), true));
    return is_cheaper(from_all, from_none) ? from_all : from_none;
  }
  std::optional<Arborescence> best;
  for (std::size_t set = 0; (set >> helpers_.size()) == 0; ++set) {
    std::vector<bool> in = problem_.is_worker();
    for (std::size_t i = 0; i < helpers_.size(); ++i) {
      if (((set >> i) & 1) != 0) in[helpers_[i]] = true;
    }
    if (!in[root]) continue;
    auto found = cheapest_arborescence(prices, members_of(in), root);
    if (is_cheaper(found, best)) best = std::move(found);
  }
  return best;
}

Tree DirectedPricing::make_tree(Arborescence up, Arborescence down, const Square& up_prices,
                                const Square& down_prices) const {
  Tree tree{0, std::move(up.parents), std::move(down.parents)};
  const auto flatten = [&](Parents& parents, const Square& prices) {
    drop_idle_leaves(parents, problem_.is_worker());
    limit_height(parents, max_height_,
                 [&](VertexId child, VertexId parent) { return prices.at(child, parent); });
    drop_idle_leaves(parents, problem_.is_worker());
  };
  flatten(tree.up, up_prices);
  flatten(tree.down, down_prices);
  if (tree.up == tree.down) tree.down.clear();
  return tree;
}

std::vector<VertexId> DirectedPricing::roots_to_try(const Square& up, const Square& down) const {
  std::vector<std::pair<double, VertexId>> roots;
  for (VertexId root = 0; root < problem_.machines(); ++root) {
    double least = 0;
    for (const Square* prices : {&up, &down}) {
      if (tries_all_) break;
      std::vector<bool> workers = problem_.is_worker();
      workers[root] = true;
      const auto few = cheapest_arborescence(*prices, members_of(workers), root);
      const auto all =
          cheapest_arborescence(*prices, members_of(std::vector<bool>(workers.size(), true)), root);
      least += std::min(few ? few->price : kNoPrice, all ? all->price : kNoPrice);
    }
    roots.emplace_back(least, root);
  }
  std::sort(roots.begin(), roots.end());
  if (!tries_all_ && roots.size() > kMostRoots) roots.resize(kMostRoots);
  std::vector<VertexId> ids;
  for (const auto& [price, root] : roots) ids.push_back(root);
  return ids;
}

// No tree is cheaper than one whose edges may all go their cheaper way.
double DirectedPricing::lower_bound(const Square& prices) const {
  Square cheaper = prices;
  for (std::size_t a = 0; a < prices.size(); ++a) {
    for (std::size_t b = 0; b < prices.size(); ++b) {
      cheaper.at(a, b) = std::min(prices.at(a, b), prices.at(b, a));
    }
  }
  return GroupTree(problem_.symmetry(), cheaper).price_of_joins();
}

Result<Priced> DirectedPricing::price(const std::vector<double>& prices) {
  const Square up = edge_prices(problem_.passages(), prices, true);
  const Square down = edge_prices(problem_.passages(), prices, false);
  Square both = up;
  for (std::size_t a = 0; a < both.size(); ++a) {
    for (std::size_t b = 0; b < both.size(); ++b) both.at(a, b) += down.at(a, b);
  }
  double least = kNoPrice;
  std::vector<std::pair<double, Tree>> found;
  for (const VertexId root : roots_to_try(up, down)) {
    auto best_up = best_tree(up, root), best_down = best_tree(down, root);
    if (!best_up || !best_down) continue;
    const double pair = best_up->price + best_down->price;
    least = std::min(least, pair);
    if (way_ == WayDown::kAnyWay) {
      found.emplace_back(pair, make_tree(std::move(*best_up), std::move(*best_down), up, down));
    } else if (auto same = best_tree(both, root)) {
      found.emplace_back(same->price, make_tree(*same, *same, both, both));
    }
  }
  if (found.empty()) {
    return invalid(fmt::format(
        "no tree joins the {} workers: some have no route to others, or from them, over switches "
        "or helpers; add links",
        problem_.workers().size()));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  Priced priced{{}, tries_all_ ? least : lower_bound(up) + lower_bound(down), tries_all_};
  for (auto& [price, tree] : found) priced.trees.push_back(std::move(tree));
  return priced;
}

}  // namespace tally::plan
