#include "tests/support/perf/packed_trees.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/lp/lp.h"
#include "control/plan/model/load.h"
#include "control/plan/model/tree.h"
#include "control/plan/stars/star_planner.h"

namespace tally::plan {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Undirected trees over the machines of a network, priced by its links.
class Packing {
 public:
  explicit Packing(const Network& network)
      : network_(network),
        routes_(network),
        machines_(network.machines()),
        prices_(network.links.size(), 1),
        busy_(network.links.size()) {
    for (VertexId id = 0; id < machines_; ++id) {
      (network.vertices[id].role == Role::kWorker ? workers_ : helpers_).push_back(id);
    }
  }

  void collect(std::uint32_t rounds) {
    add_two_level_trees();
    for (std::uint32_t round = 0; round < rounds; ++round) {
      reprice();
      const Parents tree = cheapest();
      columns_.insert(tree);
      const std::vector<double> loads = loads_of(tree);
      for (std::size_t i = 0; i < loads.size(); ++i) {
        busy_[i] += loads[i] / network_.links[i].capacity;
      }
    }
  }

  std::vector<Tree> best() {
    const std::vector<Parents> columns(columns_.begin(), columns_.end());
    const auto first = solve(columns, kInfinite);
    if (!first) return {};
    const auto second = solve(columns, first->values.back() * 1.002);
    if (!second) return {};
    std::vector<double> shares(second->values.begin(), second->values.end() - 1);
    double sum = 0;
    for (double& share : shares) sum += share = share < 1e-6 ? 0 : share;
    for (double& share : shares) share /= sum;
    const std::vector<std::uint32_t> weights = round_weights(shares);
    std::vector<Tree> trees;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (weights[i] > 0) trees.push_back(Tree{weights[i], columns[i], {}});
    }
    return trees;
  }

 private:
  void reprice() {
    const double most = *std::max_element(busy_.begin(), busy_.end());
    for (std::size_t i = 0; i < prices_.size(); ++i) {
      prices_[i] = std::exp(kStep * (busy_[i] - most)) / network_.links[i].capacity;
    }
    distances_.assign(machines_ * machines_, 0);
    for (VertexId a = 0; a < machines_; ++a) {
      for (VertexId b = 0; b < machines_; ++b) {
        routes_.walk(a, b,
                     [&](std::uint32_t link) { distances_[a * machines_ + b] += prices_[link]; });
      }
    }
  }

  double distance(VertexId a, VertexId b) const {
    return distances_[a * machines_ + b] + distances_[b * machines_ + a];
  }

  // Prim's tree over these machines, as the pairs (parent, child); returns its cost.
  double span(const std::vector<VertexId>& members,
              std::vector<std::pair<VertexId, VertexId>>& edges) const {
    edges.clear();
    std::vector<double> near(members.size(), kInfinite);
    std::vector<std::size_t> from(members.size(), 0);
    std::vector<bool> in(members.size());
    double cost = 0;
    for (std::size_t at = 0, joined = 1; joined < members.size(); ++joined) {
      in[at] = true;
      std::size_t next = members.size();
      for (std::size_t i = 0; i < members.size(); ++i) {
        if (in[i]) continue;
        const double way = distance(members[at], members[i]);
        if (way < near[i]) near[i] = way, from[i] = at;
        if (next == members.size() || near[i] < near[next]) next = i;
      }
      cost += near[next];
      edges.emplace_back(members[from[next]], members[next]);
      at = next;
    }
    return cost;
  }

  // The cheapest tree over all workers and some helpers: adds and drops helpers one by one, from
  // none and from all.
  Parents cheapest() {
    std::vector<std::pair<VertexId, VertexId>> edges, best_edges;
    double best = kInfinite;
    for (const bool all : {false, true}) {
      std::vector<bool> used(machines_, all);
      double cost = kInfinite;
      for (bool better = true; better;) {
        better = false;
        for (std::size_t i = 0; i <= helpers_.size(); ++i) {
          std::vector<bool> tried = used;
          if (i > 0) tried[helpers_[i - 1]] = !tried[helpers_[i - 1]];
          const double now = span(members(tried), edges);
          if (now >= cost * (1 - 1e-9)) continue;
          cost = now, used = tried, better = true;
          if (cost < best * (1 - 1e-9)) best = cost, best_edges = edges;
        }
      }
    }
    return rooted(best_edges);
  }

  std::vector<VertexId> members(const std::vector<bool>& used) const {
    std::vector<VertexId> list = workers_;
    for (const VertexId helper : helpers_) {
      if (used[helper]) list.push_back(helper);
    }
    return list;
  }

  // Takes helpers off that are leaves, and roots the tree at the machine with the least height.
  Parents rooted(const std::vector<std::pair<VertexId, VertexId>>& edges) const {
    std::vector<std::set<VertexId>> next(machines_);
    for (const auto& [a, b] : edges) next[a].insert(b), next[b].insert(a);
    for (bool changed = true; changed;) {
      changed = false;
      for (const VertexId helper : helpers_) {
        if (next[helper].size() != 1) continue;
        next[*next[helper].begin()].erase(helper);
        next[helper].clear();
        changed = true;
      }
    }
    Parents best;
    std::uint32_t height = UINT32_MAX;
    for (VertexId root = 0; root < machines_; ++root) {
      if (next[root].empty()) continue;
      Parents parents(machines_, kIsAbsent);
      parents[root] = kIsRoot;
      std::vector<VertexId> order = {root};
      for (std::size_t i = 0; i < order.size(); ++i) {
        for (const VertexId child : next[order[i]]) {
          if (parents[child] != kIsAbsent) continue;
          parents[child] = static_cast<std::int32_t>(order[i]);
          order.push_back(child);
        }
      }
      const std::uint32_t depth = Shape::of(parents, "").value().depth();
      if (depth < height) height = depth, best = parents;
    }
    return best;
  }

  // For each aggregator of each rack: the machines of a rack below its aggregator, the other
  // aggregators below the first one.
  void add_two_level_trees() {
    std::vector<VertexId> racks;
    for (const Link& link : network_.links) {
      if (link.from < machines_) racks.push_back(link.to);
    }
    std::sort(racks.begin(), racks.end());
    racks.erase(std::unique(racks.begin(), racks.end()), racks.end());
    const auto in = [&](VertexId id) { return network_.links[2 * id].to; };
    for (std::size_t turn = 0; turn < machines_; ++turn) {
      std::vector<std::pair<VertexId, VertexId>> edges;
      std::vector<VertexId> tops;
      for (const VertexId rack : racks) {
        std::vector<VertexId> here;
        for (VertexId id = 0; id < machines_; ++id) {
          if (in(id) == rack) here.push_back(id);
        }
        tops.push_back(here[turn % here.size()]);
        for (const VertexId id : here) {
          if (id != tops.back()) edges.emplace_back(tops.back(), id);
        }
      }
      const VertexId top = tops[turn % tops.size()];
      for (const VertexId other : tops) {
        if (other != top) edges.emplace_back(top, other);
      }
      columns_.insert(rooted(edges));
    }
  }

  std::vector<double> loads_of(const Parents& parents) {
    const std::vector<Tree> trees = {Tree{0, parents, {}}};
    const ClassLoad load = evaluate(routes_, trees, std::vector<double>{1});
    std::vector<double> bytes;
    for (std::size_t i = 0; i < network_.links.size(); ++i) bytes.push_back(load.loads[i].bytes);
    return bytes;
  }

  // Minimises tau; with a limit of tau the mean depth of the trees. tau is the last variable, in
  // units of 1e-9 s for each byte.
  Result<lp::Solution> solve(const std::vector<Parents>& columns, double most_tau) {
    lp::Program program;
    const bool flattest = most_tau < kInfinite;
    lp::Row all{{}, 1, 1};
    std::vector<lp::Row> rows(network_.links.size(), lp::Row{{}, -lp::kUnlimited, 0});
    for (std::size_t p = 0; p < columns.size(); ++p) {
      const double depth = Shape::of(columns[p], "").value().depth();
      program.variables.push_back({flattest ? depth : 0, 0, 1});
      all.terms.push_back({p, 1});
      const std::vector<double> loads = loads_of(columns[p]);
      for (std::size_t i = 0; i < loads.size(); ++i) {
        if (loads[i] > 0) rows[i].terms.push_back({p, loads[i]});
      }
    }
    program.variables.push_back({flattest ? 0.0 : 1.0, 0, flattest ? most_tau : lp::kUnlimited});
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].terms.push_back({columns.size(), -network_.links[i].capacity * 1e-9});
    }
    program.rows = std::move(rows);
    program.rows.push_back(std::move(all));
    return lp::minimize(program);
  }

  static constexpr double kStep = 0.3e9;  // busy_ is in seconds per byte

  const Network& network_;
  Routes routes_;
  std::size_t machines_;
  std::vector<VertexId> workers_;
  std::vector<VertexId> helpers_;
  std::vector<double> prices_;     // by link
  std::vector<double> busy_;       // by link: of all rounds
  std::vector<double> distances_;  // by pair of machines
  std::set<Parents> columns_;
};

}  // namespace

Network racks(std::uint32_t count, std::uint32_t workers, std::uint32_t helpers,
              double parent_connection) {
  Network network;
  const VertexId machines = count * (workers + helpers);
  for (VertexId id = 0; id < machines; ++id) {
    const VertexId place = id % (workers + helpers);
    network.vertices.push_back(Vertex{.role = place < workers ? Role::kWorker : Role::kHelper,
                                      .rack = id / (workers + helpers),
                                      .in = 1e9,
                                      .out = 1e9});
  }
  network.vertices.resize(machines + count + 1, Vertex{.role = Role::kSwitch});
  const auto join = [&](VertexId a, VertexId b, double capacity) {
    network.links.push_back({a, b, capacity * 1e9});
    network.links.push_back({b, a, capacity * 1e9});
  };
  for (VertexId id = 0; id < machines; ++id) join(id, machines + id / (workers + helpers), 1);
  for (VertexId rack = 0; rack < count; ++rack) {
    join(machines + rack, machines + count, parent_connection);
  }
  return network;
}

std::vector<VertexId> workers_of(const Network& network) {
  std::vector<VertexId> workers;
  for (VertexId id = 0; id < network.machines(); ++id) {
    if (network.vertices[id].role == Role::kWorker) workers.push_back(id);
  }
  return workers;
}

std::vector<Tree> packed_trees(const Network& network, std::uint32_t rounds) {
  if (!lp::is_available()) return {};
  Packing packing(network);
  packing.collect(rounds);
  return packing.best();
}

Plan plan_of(const Network& network, std::vector<Tree> trees, std::uint64_t chunk,
             std::uint32_t window) {
  Plan plan;
  plan.method = "test";
  plan.network = network;
  plan.domains.push_back(
      Domain{"all", workers_of(network), {SizeClass{{}, chunk, window, std::move(trees)}}, {}});
  return plan;
}

}  // namespace tally::plan
