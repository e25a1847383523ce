#include "control/plan/model/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "control/plan/model/tree.h"

namespace tally::plan {
namespace {

// The seconds per byte of a chunk that is alone in the network, on its way up a tree or down. The
// chunks of all children of a vertex pass the links that they share one after the other. So a star
// of 64 workers takes 64 times what one NIC takes for a chunk, and two levels of 8 take 16 times.
class FillTime {
 public:
  explicit FillTime(const Passages& passages) : passages_(passages), seconds_(passages.size()) {}

  double alone(const Parents& parents, bool up);

 private:
  double stage(VertexId parent, std::span<const VertexId> children, bool up);

  const Passages& passages_;
  std::vector<double> seconds_;  // by passage: of the present stage
  std::vector<std::size_t> passed_;
};

double FillTime::alone(const Parents& parents, bool up) {
  const auto shape = Shape::of(parents, "");
  if (!shape) return 0;
  std::vector<double> at(parents.size());  // when the vertex has the sum, or the result
  const std::span<const VertexId> order = shape->order();
  if (up) {
    for (std::size_t i = order.size(); i-- > 0;) {
      for (const VertexId child : shape->children(order[i])) {
        at[order[i]] = std::max(at[order[i]], at[child]);
      }
      at[order[i]] += stage(order[i], shape->children(order[i]), true);
    }
    return at[shape->root()];
  }
  double last = 0;
  for (const VertexId parent : order) {
    const double seconds = at[parent] + stage(parent, shape->children(parent), false);
    for (const VertexId child : shape->children(parent)) at[child] = seconds;
    last = std::max(last, seconds);
  }
  return last;
}

// The time of a byte of each child.
double FillTime::stage(VertexId parent, std::span<const VertexId> children, bool up) {
  const auto pass = [this](std::size_t passage) {
    if (seconds_[passage] == 0) passed_.push_back(passage);
    seconds_[passage] += 1 / passages_.capacity(passage);
  };
  for (const VertexId child : children) {
    passages_.cross(up ? child : parent, up ? parent : child, pass);
    if (const auto sum = passages_.sum(parent); up && sum) pass(*sum);
  }
  double slowest = 0;
  for (const std::size_t passage : passed_) {
    slowest = std::max(slowest, seconds_[passage]);
    seconds_[passage] = 0;
  }
  passed_.clear();
  return slowest;
}

// The time of the slowest link under an edge of the tree in one direction, in seconds per byte.
double slowest_edge(Routes& routes, const Parents& parents, bool up) {
  double slowest = 0;
  for (VertexId child = 0; child < parents.size(); ++child) {
    if (parents[child] < 0) continue;
    const auto parent = static_cast<VertexId>(parents[child]);
    routes.walk(up ? child : parent, up ? parent : child, [&](std::uint32_t link) {
      slowest = std::max(slowest, 1 / routes.network().links[link].capacity);
    });
  }
  return slowest;
}

std::uint32_t depth_of(const Parents& parents) {
  const auto shape = Shape::of(parents, "");
  return shape ? shape->depth() : 0;
}

// Which ways of the trees an operation takes.
struct Ways {
  bool up = true, down = true;
};

ClassLoad evaluate(Routes& routes, std::span<const Tree> trees, std::span<const double> shares,
                   Ways ways) {
  ClassLoad load;
  const Passages passages(routes);
  FillTime fill(passages);
  std::vector<double> seconds_alone;
  std::vector<double> bytes(passages.size());
  for (std::size_t i = 0; i < trees.size(); ++i) {
    double alone = 0, slowest = 0, hops = 0;
    const auto add = [&](const Parents& parents, bool up) {
      passages.add(parents, up, shares[i], bytes);
      alone += fill.alone(parents, up);
      slowest = std::max(slowest, slowest_edge(routes, parents, up));
      hops += depth_of(parents);
    };
    if (ways.up) add(trees[i].up, true);
    if (ways.down) add(trees[i].way_down(), false);
    if ((hops - 1) * slowest > load.fill_hops * load.edge_seconds) {
      load.fill_hops = hops - 1;
      load.edge_seconds = slowest;
    }
    seconds_alone.push_back(alone);
  }
  for (std::size_t i = 0; i < passages.size(); ++i) {
    const auto& [passage, from, to, capacity] = passages.at(i);
    load.loads.push_back({passage, from, to, capacity, bytes[i]});
    if (load.loads[i].seconds() <= load.tau) continue;
    load.tau = load.loads[i].seconds();
    load.binds = i;
  }
  for (std::size_t i = 0; i < trees.size(); ++i) {
    const double seconds = std::max(seconds_alone[i] - load.tau, 0.0);
    load.fill_seconds = std::max(load.fill_seconds, seconds);
    load.small_fill_seconds = std::max(load.small_fill_seconds, seconds * shares[i]);
  }
  return load;
}

ClassLoad evaluate(Routes& routes, std::span<const Tree> trees, std::span<const double> shares,
                   bool rs_ag) {
  if (!rs_ag) return evaluate(routes, trees, shares, Ways{});
  ClassLoad up = evaluate(routes, trees, shares, {true, false});
  ClassLoad down = evaluate(routes, trees, shares, {false, true});
  return up.tau >= down.tau ? std::move(up) : std::move(down);
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
  return evaluate(routes, trees, shares, Ways{});
}

ClassLoad evaluate(Routes& routes, const SizeClass& size_class) {
  std::vector<double> shares;
  for (const Tree& tree : size_class.trees) {
    shares.push_back(static_cast<double>(tree.weight) / kWeightUnit);
  }
  return evaluate(routes, size_class.trees, shares, size_class.rs_ag);
}

std::vector<std::size_t> distinct_loads(const ClassLoad& load, const Network& network) {
  std::vector<std::size_t> links_in(network.vertices.size()), links_out(network.vertices.size());
  for (const Link& link : network.links) {
    ++links_out[link.from];
    ++links_in[link.to];
  }
  std::vector<std::size_t> distinct;
  for (std::size_t i = 0; i < load.loads.size(); ++i) {
    const Load& one = load.loads[i];
    if (one.passage == Passage::kIn && links_in[one.to] < 2) continue;
    if (one.passage == Passage::kOut && links_out[one.from] < 2) continue;
    distinct.push_back(i);
  }
  return distinct;
}

double predicted_seconds(const ClassLoad& load, double bytes, double chunk, double hop) {
  const double fill = std::min(chunk, bytes) * load.edge_seconds + hop;
  return load.tau * bytes + load.fill_hops * fill;
}

const SizeClass& size_class_of(const Domain& domain, std::uint64_t bytes) {
  const auto takes = [bytes](const SizeClass& one) {
    return !one.max_bytes || bytes <= *one.max_bytes;
  };
  return *std::find_if(domain.classes.begin(), domain.classes.end(), takes);
}

double operation_seconds(Routes& routes, const SizeClass& size_class, double bytes, double hop) {
  const auto chunk = static_cast<double>(size_class.chunk);
  if (size_class.is_divided()) {
    return predicted_seconds(evaluate(routes, size_class), bytes, chunk, hop);
  }
  static constexpr double kWhole[] = {1};
  double mean = 0;
  for (const Tree& tree : size_class.trees) {
    const ClassLoad load = evaluate(routes, std::span(&tree, 1), kWhole, size_class.rs_ag);
    mean += tree.weight * predicted_seconds(load, bytes, chunk, hop) / kWeightUnit;
  }
  return mean;
}

}  // namespace tally::plan
