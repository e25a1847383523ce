#include "control/plan/model/dual_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "control/plan/least_cost/least_arborescence.h"
#include "control/plan/least_cost/least_tree.h"
#include "control/plan/least_cost/square.h"

namespace tally::plan {
namespace {

constexpr double kNoTree = std::numeric_limits<double>::infinity();
constexpr double kMostDirectedWork = 2e8;  // steps: less than a second
constexpr std::size_t kMostDirectedHelpers = 10;

// The price of the edge from each child (row) to each parent (column), for the way up and the way
// down.
struct EdgePrices {
  EdgePrices(const Passages& passages, const std::vector<double>& prices)
      : up(passages.network().machines(), kNoTree), down(up) {
    for (VertexId child = 0; child < up.size(); ++child) {
      for (VertexId parent = 0; parent < up.size(); ++parent) {
        if (child == parent) continue;
        const auto price_of = [&](VertexId from, VertexId to) {
          double price = 0;
          const bool found =
              passages.cross(from, to, [&](std::size_t passage) { price += prices[passage]; });
          return found ? price : kNoTree;
        };
        const auto sums = passages.sum(parent);
        up.at(child, parent) = price_of(child, parent) + (sums ? prices[*sums] : 0);
        down.at(child, parent) = price_of(parent, child);
      }
    }
  }

  Square up;
  Square down;
};

// The cheaper direction of each edge.
Square without_direction(const Square& prices) {
  Square cheaper(prices.size(), kNoTree);
  for (std::size_t i = 0; i < prices.size(); ++i) {
    for (std::size_t j = 0; j < prices.size(); ++j) {
      if (i != j) cheaper.at(i, j) = std::min(prices.at(i, j), prices.at(j, i));
    }
  }
  return cheaper;
}

// Machines whose only link out goes to one switch are of one block. Others are alone.
std::vector<std::uint32_t> blocks_of(const Network& network) {
  const auto vertices = static_cast<std::uint32_t>(network.vertices.size());
  std::vector<std::uint32_t> blocks(network.machines(), vertices);
  for (const Link& link : network.links) {
    if (link.from >= blocks.size()) continue;
    const bool is_first = blocks[link.from] == vertices && link.to >= blocks.size();
    blocks[link.from] = is_first ? link.to : link.from;
  }
  return blocks;
}

// The least price of a tree up and one down with the same root, over all sets of helpers.
// Precondition: there are few helpers.
double least_pair(const EdgePrices& prices, const std::vector<bool>& must) {
  std::vector<std::size_t> helpers;
  for (std::size_t i = 0; i < must.size(); ++i) {
    if (!must[i]) helpers.push_back(i);
  }
  double least = kNoTree;
  for (std::size_t root = 0; root < must.size(); ++root) {
    double up = kNoTree, down = kNoTree;
    for (std::size_t set = 0; set >> helpers.size() == 0; ++set) {
      std::vector<bool> in = must;
      for (std::size_t i = 0; i < helpers.size(); ++i) {
        if ((set >> i & 1) != 0) in[helpers[i]] = true;
      }
      if (!in[root]) continue;
      up = std::min(up, least_arborescence_cost(prices.up, in, root));
      down = std::min(down, least_arborescence_cost(prices.down, in, root));
    }
    least = std::min(least, up + down);
  }
  return least;
}

double least_price(const EdgePrices& prices, const std::vector<bool>& must,
                   const std::vector<std::uint32_t>& blocks) {
  const Square up = without_direction(prices.up), down = without_direction(prices.down);
  double least = least_tree_cost(up, must, blocks);
  least += up == down ? least : least_tree_cost(down, must, blocks);
  if (up == prices.up && down == prices.down) return least;
  const auto machines = static_cast<double>(must.size());
  const auto helpers = static_cast<std::size_t>(std::count(must.begin(), must.end(), false));
  if (helpers > kMostDirectedHelpers) return least;
  const double work = std::pow(2, static_cast<double>(helpers)) * std::pow(machines, 4);
  return work > kMostDirectedWork ? least : std::max(least, least_pair(prices, must));
}

}  // namespace

Result<std::vector<double>> prices_by_passage(const Passages& passages,
                                              std::span<const DualValue> dual,
                                              const std::string& place) {
  std::map<std::tuple<Passage, VertexId, VertexId>, std::size_t> left;  // without a price so far
  for (std::size_t i = 0; i < passages.size(); ++i) {
    const PassagePlace& known = passages.at(i);
    left[{known.passage, known.from, known.to}] = i;
  }
  std::vector<double> prices(passages.size(), 0);
  for (std::size_t i = 0; i < dual.size(); ++i) {
    const auto& [passage, from, to, value] = dual[i];
    const auto found = left.find({passage, from, to});
    if (found == left.end()) {
      return invalid(
          fmt::format("{}[{}]: must name a link of the network, or the in, out or sum "
                      "of a machine ([\"in\", 3, 3, 0.5]), each once",
                      place, i));
    }
    if (!std::isfinite(value) || value < 0) {
      return invalid(fmt::format("{}[{}][3] = {}: must be at least 0", place, i, value));
    }
    prices[found->second] = value;
    left.erase(found);
  }
  return prices;
}

Result<double> dual_bound(Routes& routes, std::span<const VertexId> workers,
                          std::span<const DualValue> dual, const std::string& place) {
  const std::size_t machines = routes.network().machines();
  if (machines > kMaxDualMachines) {
    return invalid(fmt::format("{}: at most {} machines; this network has {}", place,
                               kMaxDualMachines, machines));
  }
  const Passages passages(routes);
  const auto prices = prices_by_passage(passages, dual, place);
  if (!prices) return prices.error();
  double capacity = 0;
  for (std::size_t i = 0; i < passages.size(); ++i) capacity += passages.capacity(i) * (*prices)[i];
  if (!(capacity > 0) || !std::isfinite(capacity)) {
    return invalid(
        fmt::format("{}: capacity x value sums to {}; must be above 0", place, capacity));
  }
  std::vector<bool> must(machines, false);
  for (const VertexId worker : workers) must[worker] = true;
  const double price =
      least_price(EdgePrices(passages, *prices), must, blocks_of(routes.network()));
  if (price < kNoTree) return price / capacity;
  return invalid(fmt::format("{}: no tree joins all workers", place));
}

}  // namespace tally::plan
