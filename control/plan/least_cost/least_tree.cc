#include "control/plan/least_cost/least_tree.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace tally::plan {
namespace {

constexpr double kNoEdge = std::numeric_limits<double>::infinity();
constexpr double kMostWork = 2e8;  // steps over all choices together: less than a second

// Vertices that are alike: each has the same cost to any other vertex.
struct Kind {
  std::vector<std::size_t> vertices;
  std::uint32_t block = 0;
  bool must = false;

  std::size_t first() const { return vertices.front(); }
  std::size_t size() const { return vertices.size(); }
};

// The kinds of one block, in the order of their first vertices.
using BlockOfKinds = std::vector<std::size_t>;

class LeastTree {
 public:
  LeastTree(const Square& costs, const std::vector<bool>& must,
            const std::vector<std::uint32_t>& blocks)
      : costs_(costs), must_(must) {
    for (std::size_t vertex = 0; vertex < must.size(); ++vertex) add_vertex(vertex, blocks[vertex]);
    find_alike_blocks();
  }

  double run() {
    counts_.assign(kinds_.size(), 0);
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      if (kinds_[i].must) counts_[i] = kinds_[i].size();
    }
    const double steps = static_cast<double>(kinds_.size() * kinds_.size());
    if (choices() * steps > kMostWork) return cost_of_joins();
    choose(0, 0, 0);
    return least_;
  }

 private:
  void add_vertex(std::size_t vertex, std::uint32_t block) {
    for (Kind& kind : kinds_) {
      if (kind.block != block || kind.must != must_[vertex]) continue;
      if (!are_alike(kind.first(), vertex)) continue;
      kind.vertices.push_back(vertex);
      return;
    }
    kinds_.push_back({{vertex}, block, must_[vertex]});
  }

  bool are_alike(std::size_t a, std::size_t b) const {
    for (std::size_t x = 0; x < costs_.size(); ++x) {
      if (x != a && x != b && costs_.at(a, x) != costs_.at(b, x)) return false;
    }
    return true;
  }

  double between(std::size_t a, std::size_t b) const {
    return costs_.at(kinds_[a].first(), kinds_[b].first());
  }
  double within(std::size_t kind) const {
    const auto& vertices = kinds_[kind].vertices;
    return vertices.size() < 2 ? kNoEdge : costs_.at(vertices[0], vertices[1]);
  }

  // Groups the blocks into sets in which any two can change places.
  void find_alike_blocks() {
    std::vector<std::pair<std::uint32_t, std::size_t>> by_block;
    for (std::size_t i = 0; i < kinds_.size(); ++i) by_block.emplace_back(kinds_[i].block, i);
    std::sort(by_block.begin(), by_block.end());
    std::vector<BlockOfKinds> blocks;
    for (std::size_t i = 0; i < by_block.size(); ++i) {
      if (i == 0 || by_block[i].first != by_block[i - 1].first) blocks.emplace_back();
      blocks.back().push_back(by_block[i].second);
    }
    for (const BlockOfKinds& block : blocks) {
      const auto alike = std::find_if(sets_.begin(), sets_.end(), [&](const auto& set) {
        return can_change_places(set.front(), block);
      });
      if (alike != sets_.end()) {
        alike->push_back(block);
      } else {
        sets_.push_back({block});
      }
    }
  }

  bool can_change_places(const BlockOfKinds& a, const BlockOfKinds& b) const {
    if (a.size() != b.size()) return false;
    std::vector<bool> inside(kinds_.size(), false);
    for (std::size_t i = 0; i < a.size(); ++i) inside[a[i]] = inside[b[i]] = true;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (kinds_[a[i]].size() != kinds_[b[i]].size() || kinds_[a[i]].must != kinds_[b[i]].must ||
          within(a[i]) != within(b[i])) {
        return false;
      }
      for (std::size_t j = 0; j < a.size(); ++j) {
        if (i != j && between(a[i], a[j]) != between(b[i], b[j])) return false;
        if (between(a[i], b[j]) != between(b[i], a[j])) return false;
      }
      for (std::size_t x = 0; x < kinds_.size(); ++x) {
        if (!inside[x] && between(a[i], x) != between(b[i], x)) return false;
      }
    }
    return true;
  }

  // The ways to choose how many vertices of each kind of the block are in the tree.
  std::size_t options(const BlockOfKinds& block) const {
    double options = 1;
    for (const std::size_t kind : block) {
      if (!kinds_[kind].must) options *= static_cast<double>(kinds_[kind].size() + 1);
    }
    return static_cast<std::size_t>(std::min(options, kMostWork));
  }

  // The number of choices: from each set as many options as it has blocks, in any order.
  double choices() const {
    double choices = 1;
    for (const auto& set : sets_) {
      const auto count = static_cast<double>(options(set.front()));
      for (std::size_t i = 0; i < set.size(); ++i) {
        choices *= (count + static_cast<double>(i)) / static_cast<double>(i + 1);
      }
    }
    return choices;
  }

  // Tries all choices for the blocks from this one on. Within a set, options never descend.
  void choose(std::size_t set, std::size_t block, std::size_t least_option) {
    if (set == sets_.size()) {
      least_ = std::min(least_, cost_of_counts());
      return;
    }
    const std::size_t all = options(sets_[set][block]);
    const bool is_last = block + 1 == sets_[set].size();
    for (std::size_t option = least_option; option < all; ++option) {
      std::size_t rest = option;
      for (const std::size_t kind : sets_[set][block]) {
        if (kinds_[kind].must) continue;
        counts_[kind] = rest % (kinds_[kind].size() + 1);
        rest /= kinds_[kind].size() + 1;
      }
      choose(is_last ? set + 1 : set, is_last ? 0 : block + 1, is_last ? 0 : option);
    }
  }

  // Prim's algorithm: the least cost to join the chosen vertices. Once one vertex of a kind is in
  // the tree, the others of its kind all cost the same, and add no cheaper edge.
  double cost_of_counts() const {
    std::vector<std::size_t> left = counts_;
    std::vector<double> key(kinds_.size(), kNoEdge);
    std::vector<bool> entered(kinds_.size(), false);
    const auto enter = [&](std::size_t kind) {
      entered[kind] = true;
      for (std::size_t i = 0; i < kinds_.size(); ++i) {
        key[i] = std::min(key[i], i == kind ? within(kind) : between(kind, i));
      }
    };
    const auto start = static_cast<std::size_t>(
        std::find_if(kinds_.begin(), kinds_.end(), [](const Kind& kind) { return kind.must; }) -
        kinds_.begin());
    if (start == kinds_.size()) return 0;
    --left[start];
    enter(start);
    for (double cost = 0;;) {
      std::size_t next = kinds_.size();
      for (std::size_t i = 0; i < kinds_.size(); ++i) {
        if (left[i] > 0 && (next == kinds_.size() || key[i] < key[next])) next = i;
      }
      if (next == kinds_.size()) return cost;
      if (key[next] == kNoEdge) return kNoEdge;
      const std::size_t taken = entered[next] ? left[next] : 1;
      cost += key[next] * static_cast<double>(taken);
      left[next] -= taken;
      if (!entered[next]) enter(next);
    }
  }

  // Kruskal's algorithm over all vertices. An edge costs nothing unless it joins two parts that
  // both have vertices that must be in the tree. Proof of the bound: let t be any cost. A tree has
  // at least as many edges above t as there are such parts, joined by edges up to t, less one.
  double cost_of_joins() const {
    std::vector<std::tuple<double, std::size_t, std::size_t>> edges;
    for (std::size_t a = 0; a < costs_.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (costs_.at(a, b) < kNoEdge) edges.emplace_back(costs_.at(a, b), a, b);
      }
    }
    std::sort(edges.begin(), edges.end());
    std::vector<std::size_t> above(costs_.size());
    std::iota(above.begin(), above.end(), std::size_t{0});
    const auto part_of = [&](std::size_t vertex) {
      while (above[vertex] != vertex) vertex = above[vertex] = above[above[vertex]];
      return vertex;
    };
    std::vector<bool> has_must = must_;
    auto parts = std::count(must_.begin(), must_.end(), true);
    double cost = 0;
    for (const auto& [edge, a, b] : edges) {
      const std::size_t from = part_of(a), to = part_of(b);
      if (from == to) continue;
      above[from] = to;
      if (has_must[from] && has_must[to]) {
        cost += edge;
        --parts;
      }
      has_must[to] = has_must[to] || has_must[from];
    }
    return parts > 1 ? kNoEdge : cost;
  }

  const Square& costs_;
  const std::vector<bool>& must_;
  std::vector<Kind> kinds_;
  std::vector<std::vector<BlockOfKinds>> sets_;  // of blocks that can change places
  std::vector<std::size_t> counts_;              // by kind: its vertices in the tree
  double least_ = kNoEdge;
};

}  // namespace

double least_tree_cost(const Square& costs, const std::vector<bool>& must,
                       const std::vector<std::uint32_t>& blocks) {
  return LeastTree(costs, must, blocks).run();
}

}  // namespace tally::plan
