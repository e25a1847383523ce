#include "control/plan/model/load.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/plan/model/tree.h"

namespace tally::plan {
namespace {

// The loads in the order of ClassLoad::loads: the links, then in, out and sum of each machine. The
// sum of a machine without a given speed of sums is left out.
class Ledger {
 public:
  explicit Ledger(Routes& routes)
      : routes_(routes),
        machines_(routes.network().machines()),
        links_(routes.network().links.size()),
        in_(machines_),
        out_(machines_),
        sums_(machines_) {}

  // Adds one direction of a tree; `up` is true for the way up. Returns the time of its slowest
  // edge, in seconds per byte.
  double add(const Parents& parents, double share, bool up) {
    double slowest = 0;
    for (VertexId child = 0; child < parents.size(); ++child) {
      if (parents[child] < 0) continue;
      const auto parent = static_cast<VertexId>(parents[child]);
      if (up) sums_[parent] += share;
      slowest = std::max(slowest, up ? send(child, parent, share) : send(parent, child, share));
    }
    return slowest;
  }

  std::vector<Load> loads() const {
    const Network& network = routes_.network();
    std::vector<Load> loads;
    for (std::size_t i = 0; i < links_.size(); ++i) {
      const Link& link = network.links[i];
      loads.push_back({Passage::kLink, link.from, link.to, link.capacity, links_[i]});
    }
    for (VertexId id = 0; id < machines_; ++id) {
      const Vertex& machine = network.vertices[id];
      loads.push_back({Passage::kIn, id, id, machine.in, in_[id]});
      loads.push_back({Passage::kOut, id, id, machine.out, out_[id]});
      if (machine.sum) loads.push_back({Passage::kSum, id, id, *machine.sum, sums_[id]});
    }
    return loads;
  }

 private:
  double send(VertexId from, VertexId to, double share) {
    double slowest = 0;
    routes_.walk(from, to, [&](std::uint32_t link) {
      links_[link] += share;
      slowest = std::max(slowest, 1 / routes_.network().links[link].capacity);
    });
    out_[from] += share;
    in_[to] += share;
    return slowest;
  }

  Routes& routes_;
  std::size_t machines_;
  std::vector<double> links_;
  std::vector<double> in_;
  std::vector<double> out_;
  std::vector<double> sums_;
};

std::uint32_t depth_of(const Parents& parents) {
  const auto shape = Shape::of(parents, "");
  return shape ? shape->depth() : 0;
}

}  // namespace

std::string describe(const Load& load, const Network& network) {
  const std::string from = network.name_of(load.from);
  switch (load.passage) {
    case Passage::kLink:
      return fmt::format("{} -> {}", from, network.name_of(load.to));
    case Passage::kIn:
      return "into " + from;
    case Passage::kOut:
      return "out of " + from;
    case Passage::kSum:
      break;
  }
  return "sums of " + from;
}

ClassLoad evaluate(Routes& routes, std::span<const Tree> trees, std::span<const double> shares) {
  ClassLoad load;
  Ledger ledger(routes);
  for (std::size_t i = 0; i < trees.size(); ++i) {
    const Tree& tree = trees[i];
    const double slowest = std::max(ledger.add(tree.up, shares[i], true),
                                    ledger.add(tree.way_down(), shares[i], false));
    const double hops = depth_of(tree.up) + depth_of(tree.way_down());
    if ((hops - 1) * slowest > load.fill_hops * load.edge_seconds) {
      load.fill_hops = hops - 1;
      load.edge_seconds = slowest;
    }
  }
  load.loads = ledger.loads();
  for (std::size_t i = 0; i < load.loads.size(); ++i) {
    if (load.loads[i].seconds() <= load.tau) continue;
    load.tau = load.loads[i].seconds();
    load.binds = i;
  }
  return load;
}

ClassLoad evaluate(Routes& routes, const SizeClass& size_class) {
  std::vector<double> shares;
  for (const Tree& tree : size_class.trees) {
    shares.push_back(static_cast<double>(tree.weight) / kWeightUnit);
  }
  return evaluate(routes, size_class.trees, shares);
}

double predicted_seconds(const ClassLoad& load, double bytes, double chunk, double hop) {
  const double fill = std::min(chunk, bytes) * load.edge_seconds + hop;
  return load.tau * bytes + load.fill_hops * fill;
}

}  // namespace tally::plan
