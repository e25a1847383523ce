#include "control/plan/forestcoll/forest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "control/plan/forestcoll/packing.h"

namespace tally::plan::forestcoll {
namespace {

constexpr double kMostUnits = 2147483648.0;  // of a link
// The units of all links together, times the workers, then stay below 2^59.
constexpr std::int64_t kMostUnitsOfAll = std::int64_t{1} << 50;
constexpr double kSlack = 1e-9;  // for doubles that were added in another order

// A network in whole units. Workers come first, then the vertices that only forward.
struct Units {
  std::size_t workers = 0;
  std::vector<VertexId> ids;  // of the network, by vertex
  Capacities capacities{0};

  Units transposed() const {
    Units other = *this;
    for (std::size_t from = 0; from < ids.size(); ++from) {
      for (std::size_t to = 0; to < ids.size(); ++to) {
        other.capacities(to, from) = capacities(from, to);
      }
    }
    return other;
  }
};

template <typename... Arguments>
Error unfit(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  return invalid("ForestColl: " + fmt::format(text, std::forward<Arguments>(arguments)...));
}

Outcome check_sizes(const Network& network, std::size_t workers) {
  if (workers < 2 || workers > kMostWorkers) {
    return unfit("{} workers: must be 2 to {}", workers, kMostWorkers);
  }
  if (network.vertices.size() > kMostVertices) {
    return unfit("{} vertices: must be at most {}", network.vertices.size(), kMostVertices);
  }
  std::vector<double> in(network.vertices.size()), out(network.vertices.size());
  for (const Link& link : network.links) {
    out[link.from] += link.capacity;
    in[link.to] += link.capacity;
  }
  for (VertexId id = 0; id < network.machines(); ++id) {
    const Vertex& machine = network.vertices[id];
    if (in[id] <= machine.in * (1 + kSlack) && out[id] <= machine.out * (1 + kSlack)) continue;
    return unfit(
        "{}: its links carry {:g} in and {:g} out together, and the machine {:g} and {:g}; "
        "give its links at most the speed of the machine",
        network.name_of(id), in[id], out[id], machine.in, machine.out);
  }
  return Unit{};
}

Outcome check_balance(const Network& network, const Units& units) {
  std::int64_t all = 0;
  for (std::size_t at = 0; at < units.ids.size(); ++at) {
    std::int64_t in = 0, out = 0;
    for (std::size_t other = 0; other < units.ids.size(); ++other) {
      in += units.capacities(other, at);
      out += units.capacities(at, other);
    }
    all += out;
    if (at < units.workers || in == out) continue;
    return unfit(
        "{}: {} units lead into it and {} out of it; a vertex that only forwards must "
        "have as many both ways, so lower the faster ones",
        network.name_of(units.ids[at]), in, out);
  }
  if (all <= kMostUnitsOfAll) return Unit{};
  return unfit("the links have {} units together; take a larger unit", all);
}

Result<Units> units_of(const Network& network, double unit) {
  Units units;
  std::vector<std::size_t> places(network.vertices.size());
  for (const bool worker : {true, false}) {
    for (VertexId id = 0; id < network.vertices.size(); ++id) {
      if ((network.vertices[id].role == Role::kWorker) != worker) continue;
      places[id] = units.ids.size();
      units.ids.push_back(id);
    }
    if (worker) units.workers = units.ids.size();
  }
  if (auto sizes = check_sizes(network, units.workers); !sizes) return sizes.error();
  units.capacities = Capacities(units.ids.size());
  for (const Link& link : network.links) {
    const double count = std::floor(link.capacity / unit * (1 + kSlack));
    if (!(count >= 1 && count <= kMostUnits)) {
      return unfit(
          "{} -> {}: {:g} bytes per second are {:g} units of {:g}; must be 1 to 2^31 units",
          network.name_of(link.from), network.name_of(link.to), link.capacity, count, unit);
    }
    units.capacities(places[link.from], places[link.to]) = static_cast<std::int64_t>(count);
  }
  if (auto balance = check_balance(network, units); !balance) return balance.error();
  return units;
}

// With the least time p / q, the paper scales capacities by p / g and packs q / g trees per root.
// The largest g for which these are whole numbers gives the fewest trees.
std::int64_t largest_divisor(const Capacities& capacities, std::int64_t under) {
  std::int64_t divisor = under;
  for (std::size_t from = 0; from < capacities.vertices(); ++from) {
    for (std::size_t to = 0; to < capacities.vertices(); ++to) {
      divisor = std::gcd(divisor, capacities(from, to));
    }
  }
  return divisor;
}

// Takes the routes of a batch off the overlay. `back`: bytes go towards the roots.
Trees trees_of(const Batch& batch, Overlay& overlay, const Units& units, std::size_t machines,
               bool back) {
  Trees trees{units.ids[batch.root], batch.trees, Parents(machines, kIsAbsent),
              std::vector<std::vector<Route>>(machines)};
  trees.parents[trees.root] = kIsRoot;
  for (std::size_t i = 1; i < batch.reached.size(); ++i) {
    const std::uint32_t worker = batch.reached[i];
    const auto parent = static_cast<std::uint32_t>(batch.parents[worker]);
    const VertexId id = units.ids[worker];
    trees.parents[id] = static_cast<std::int32_t>(units.ids[parent]);
    trees.routes[id] = take(overlay.routes(parent, worker), batch.trees);
    for (Route& route : trees.routes[id]) {
      for (std::uint32_t& vertex : route.via) vertex = units.ids[vertex];
      if (back) std::reverse(route.via.begin(), route.via.end());
    }
  }
  return trees;
}

Result<Forest> forest_of(const Network& network, double unit, bool back) {
  const auto straight = units_of(network, unit);
  if (!straight) return straight.error();
  const Units units = back ? straight->transposed() : *straight;
  Forest forest;
  forest.workers = units.workers;
  forest.unit = unit;
  const auto least = least_time(units.capacities, units.workers);
  if (!least) return unfit("links do not lead from each worker to each other one; add links");
  forest.least_time = *least;
  const std::int64_t divisor = largest_divisor(units.capacities, least->under);
  forest.trees_per_root = least->under / divisor;
  Capacities scaled = units.capacities;
  for (std::size_t from = 0; from < scaled.vertices(); ++from) {
    for (std::size_t to = 0; to < scaled.vertices(); ++to) {
      scaled(from, to) = scaled(from, to) / divisor * least->over;
    }
  }
  auto overlay = split_switches(scaled, units.workers, forest.trees_per_root);
  if (!overlay) return overlay.error();
  auto batches = pack_trees(overlay->capacities, forest.trees_per_root);
  if (!batches) return batches.error();
  std::stable_sort(batches->begin(), batches->end(),
                   [](const Batch& a, const Batch& b) { return a.root < b.root; });
  for (const Batch& batch : *batches) {
    forest.trees.push_back(trees_of(batch, *overlay, units, network.machines(), back));
  }
  return forest;
}

}  // namespace

Result<Forest> all_gather(const Network& network, double unit) {
  return forest_of(network, unit, false);
}

Result<Forest> reduce_scatter(const Network& network, double unit) {
  return forest_of(network, unit, true);
}

}  // namespace tally::plan::forestcoll
