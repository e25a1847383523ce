#include "control/plan/forestcoll/network_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "control/plan/forestcoll/bound.h"
#include "control/plan/forestcoll/forest.h"

namespace tally::plan::forestcoll {
namespace {

constexpr double kUnitsOfSlowest = 65536;
constexpr double kUnitsOfAll = 0x1p57;  // times the workers; a quarter of what least_time() takes

// Where a vertex of the network is: bytes come in at `in`, and leave at `out`. The NIC of a machine
// lies between these and the machine.
struct Place {
  std::size_t in = 0;
  std::size_t at = 0;
  std::size_t out = 0;
};

class CutGraph {
 public:
  CutGraph(const Network& network, std::span<const VertexId> workers)
      : network_(network), places_(network.vertices.size()) {
    for (const VertexId id : workers) places_[id].at = vertices_++;
    for (VertexId id = 0; id < places_.size(); ++id) {
      Place& place = places_[id];
      if (!std::binary_search(workers.begin(), workers.end(), id)) place.at = vertices_++;
      const bool has_nic = id < network.machines();
      place.in = has_nic ? vertices_++ : place.at;
      place.out = has_nic ? vertices_++ : place.at;
    }
    double slowest = INFINITY, all = 0;
    for_each_edge([&](std::size_t, std::size_t, double speed) {
      slowest = std::min(slowest, speed);
      all += speed;
    });
    const auto count = static_cast<double>(workers.size());
    unit_ = std::max(slowest / kUnitsOfSlowest, all * count / kUnitsOfAll);
  }

  double unit() const { return unit_; }

  // The capacities in units, in the direction of results or, transposed, of sums.
  Capacities capacities(bool transposed) const {
    Capacities units(vertices_);
    for_each_edge([&](std::size_t from, std::size_t to, double speed) {
      const auto count = static_cast<std::int64_t>(std::ceil(speed / unit_));
      units(transposed ? to : from, transposed ? from : to) += count;
    });
    return units;
  }

 private:
  template <typename Visit>
  void for_each_edge(Visit visit) const {
    for (VertexId id = 0; id < network_.machines(); ++id) {
      visit(places_[id].in, places_[id].at, network_.vertices[id].in);
      visit(places_[id].at, places_[id].out, network_.vertices[id].out);
    }
    for (const Link& link : network_.links) {
      visit(places_[link.from].out, places_[link.to].in, link.capacity);
    }
  }

  const Network& network_;
  std::vector<Place> places_;
  std::size_t vertices_ = 0;
  double unit_ = 1;
};

}  // namespace

Result<WaySeconds> least_seconds(const Network& network, std::span<const VertexId> workers) {
  if (workers.size() < 2 || workers.size() > kMostWorkers) {
    return invalid(fmt::format("{} workers: must be 2 to {} for reduce-scatters and all-gathers",
                               workers.size(), kMostWorkers));
  }
  if (network.vertices.size() > kMostVertices) {
    return invalid(
        fmt::format("{} machines and switches: must be at most {} for reduce-scatters "
                    "and all-gathers",
                    network.vertices.size(), kMostVertices));
  }
  const CutGraph graph(network, workers);
  const auto seconds = [&](bool up) -> Result<double> {
    const auto least = least_time(graph.capacities(up), workers.size());
    if (!least) return invalid("links do not lead from each worker to each other one; add links");
    return least->value() / (static_cast<double>(workers.size()) * graph.unit());
  };
  const auto up = seconds(true);
  if (!up) return up.error();
  const auto down = seconds(false);
  if (!down) return down.error();
  return WaySeconds{*up, *down};
}

}  // namespace tally::plan::forestcoll
