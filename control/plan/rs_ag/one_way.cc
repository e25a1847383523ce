#include "control/plan/rs_ag/one_way.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "base/lp/column_program.h"
#include "control/plan/packing/trees/arborescence.h"
#include "control/plan/packing/trees/directed_pricing.h"
#include "control/plan/packing/trees/rooting.h"

namespace tally::plan {
namespace {

constexpr int kMostRounds = 500;
constexpr int kTurns = 8;  // of each root, for the trees to begin with
constexpr double kSteepness = 8;
constexpr double kSteepest = 60;   // its exponential is finite
constexpr double kCheaper = 1e-7;  // of a tree, in the program's unit
// As in packing/selection.h: a plan may be slower by this part if it has fewer levels, and its
// whole time is worth so many levels of one way.
constexpr double kLevelSlack = 0.02;
constexpr double kLevelsOfTime = 10;
constexpr double kNoShare = 1e-6;

struct Candidate {
  std::size_t root = 0;  // index of a worker
  Parents parents;
  double price = 0;
  std::vector<lp::RowTerm> terms;
};

class OneWayPacking {
 public:
  OneWayPacking(const Problem& problem, const OneWayLimits& limits)
      : problem_(problem), limits_(limits), roots_(problem.workers().size()) {}

  Result<OneWay> run() {
    if (auto begun = begin(); !begun) return begun.error();
    auto found = generate();
    if (!found) return found.error();
    std::vector<std::size_t> all(candidates_.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    const double least = found->values[0];
    auto flat = solve(all, least, least * (1 + kLevelSlack));
    if (!flat) return flat.error();
    auto largest = by_share(*flat);
    if (largest.size() <= limits_.max_trees) return shares(all, *flat);
    largest.resize(limits_.max_trees);
    flat = solve(largest, least, lp::kUnlimited);
    if (!flat) return flat.error();
    return shares(largest, *flat);
  }

 private:
  // A row for each root, whose shares sum to 1; then one for each passage, in multiples of the
  // lower bound. The first variable is the time in this unit.
  static Result<lp::ColumnProgram> empty_program(std::size_t roots, std::size_t passages,
                                                 const lp::Variable& time) {
    std::vector<lp::RowLimits> rows(roots, {1, 1});
    rows.resize(roots + passages, {-lp::kUnlimited, 0});
    auto program = lp::ColumnProgram::of(std::move(rows));
    if (!program) return program.error();
    lp::Column column{time, {}};
    for (std::size_t i = 0; i < passages; ++i) column.terms.push_back({roots + i, -1});
    if (auto added = program->add(std::move(column)); !added) return added.error();
    return program;
  }

  Outcome begin() {
    auto program = empty_program(roots_, problem_.passages().size(), {.cost = 1});
    if (!program) return program.error();
    program_.emplace(std::move(*program));
    if (auto flattest = add_flattest(); !flattest) return flattest;
    return spread_trees();
  }

  // Adds for each root the tree of the fewest levels.
  Outcome add_flattest() {
    const std::vector<double> free(problem_.passages().size());
    const Square edges = edge_prices(problem_.passages(), free, limits_.up);
    for (std::size_t root = 0; root < roots_; ++root) {
      const VertexId id = problem_.workers()[root];
      auto tree = flattest(id, edges);
      if (!tree || levels_of(*tree) > limits_.max_height) {
        return invalid(fmt::format(
            "{}: no tree of at most {} levels leads from it to all workers; add links, or plan for "
            "all-reduces, whose trees may have other roots",
            problem_.network().name_of(id), limits_.max_height));
      }
      Candidate one{root, std::move(*tree), 0, {}};
      one.terms = terms_of(one);
      if (auto added = add(std::move(one)); !added) return added.error();
    }
    return Unit{};
  }

  // Returns the tree of a search in breadth from the root. No other tree has fewer levels.
  std::optional<Parents> flattest(VertexId root, const Square& edges) const {
    Parents parents(problem_.machines(), kIsAbsent);
    parents[root] = kIsRoot;
    std::vector<VertexId> reached = {root};
    for (std::size_t next = 0; next < reached.size(); ++next) {
      for (const VertexId id : problem_.workers()) {
        if (parents[id] != kIsAbsent || !std::isfinite(edges.at(id, reached[next]))) continue;
        parents[id] = static_cast<std::int32_t>(reached[next]);
        reached.push_back(id);
      }
    }
    if (reached.size() < roots_) return std::nullopt;
    return parents;
  }

  // Trees that are not far from a good packing: root by root, each takes the cheapest one at prices
  // that grow with what the passages carry already (multiplicative weights).
  Outcome spread_trees() {
    const std::size_t passages = problem_.passages().size();
    std::vector<double> prices(passages), busy(passages);
    for (int turn = 0; turn < kTurns; ++turn) {
      for (std::size_t root = 0; root < roots_; ++root) {
        for (std::size_t i = 0; i < passages; ++i) {
          const double steep = kSteepness * busy[i] / (turn + 1);
          prices[i] = std::exp(std::min(steep, kSteepest)) / scale(i);
        }
        auto tree = cheapest(root, edge_prices(problem_.passages(), prices, limits_.up));
        if (!tree) continue;
        for (const auto& [row, factor] : tree->terms) {
          if (row >= roots_) busy[row - roots_] += factor;
        }
        if (auto added = add(std::move(*tree)); !added) return added.error();
      }
    }
    return Unit{};
  }

  Result<lp::ColumnSolution> generate() {
    for (int round = 0;; ++round) {
      auto solution = program_->minimize();
      if (!solution) return solution;
      if (solution->answer != lp::Answer::kOptimal) return no_optimum();
      if (solution->values[0] <= 1 + limits_.gap || round == kMostRounds) return solution;
      std::vector<double> prices(problem_.passages().size());
      for (std::size_t i = 0; i < prices.size(); ++i) {
        prices[i] = std::max(0.0, -solution->duals[roots_ + i]) / scale(i);
      }
      const auto grown = grow(prices, solution->duals);
      if (!grown) return grown.error();
      if (!*grown) return solution;
    }
  }

  // In the row of a passage, the bytes that one root's tree sends through it are divided by this.
  double scale(std::size_t passage) const {
    return static_cast<double>(roots_) * problem_.passages().capacity(passage) *
           limits_.lower_bound;
  }

  // Adds the cheapest tree of each root, if it lowers the time. duals: by row, those of roots
  // first. Returns whether there was one.
  Result<bool> grow(const std::vector<double>& prices, const std::vector<double>& duals) {
    const Square edges = edge_prices(problem_.passages(), prices, limits_.up);
    bool grows = false;
    for (std::size_t root = 0; root < roots_; ++root) {
      auto tree = cheapest(root, edges);
      if (!tree || tree->price >= duals[root] - kCheaper) continue;
      const auto added = add(std::move(*tree));
      if (!added) return added.error();
      grows = grows || *added;
    }
    return grows;
  }

  // prices: by child and parent.
  std::optional<Candidate> cheapest(std::size_t root, const Square& prices) const {
    auto tree = cheapest_arborescence(prices, problem_.workers(), problem_.workers()[root]);
    if (!tree) return std::nullopt;
    Candidate found{root, std::move(tree->parents), 0, {}};
    limit_height(found.parents, limits_.max_height,
                 [&](VertexId child, VertexId parent) { return prices.at(child, parent); });
    if (levels_of(found.parents) > limits_.max_height) return std::nullopt;
    for (const VertexId id : problem_.workers()) {
      const std::int32_t parent = found.parents[id];
      if (parent >= 0) found.price += prices.at(id, static_cast<VertexId>(parent));
    }
    found.terms = terms_of(found);
    return found;
  }

  // Returns false when the tree is known.
  Result<bool> add(Candidate tree) {
    if (!known_.emplace(tree.root, tree.parents).second) return false;
    if (auto added = program_->add({{}, tree.terms}); !added) return added.error();
    candidates_.push_back(std::move(tree));
    return true;
  }

  std::vector<lp::RowTerm> terms_of(const Candidate& one) const {
    std::vector<double> bytes(problem_.passages().size());
    problem_.passages().add(one.parents, limits_.up, 1, bytes);
    std::vector<lp::RowTerm> terms = {{one.root, 1}};
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] > 0) terms.push_back({roots_ + i, bytes[i] / scale(i)});
    }
    return terms;
  }

  static Error no_optimum() {
    return {Status::kInternal, "the shares of trees have no optimum"};  // each root has a tree
  }

  // The shares of these candidates with the fewest levels. least: the time that is worth
  // kLevelsOfTime.
  Result<lp::ColumnSolution> solve(const std::vector<std::size_t>& chosen, double least,
                                   double most_time) const {
    auto program = empty_program(roots_, problem_.passages().size(),
                                 {.cost = kLevelsOfTime / least, .lower = 0, .upper = most_time});
    if (!program) return program.error();
    for (const std::size_t i : chosen) {
      const double levels = levels_of(candidates_[i].parents);
      lp::Column column{{.cost = levels / static_cast<double>(roots_)}, candidates_[i].terms};
      if (auto added = program->add(std::move(column)); !added) return added.error();
    }
    auto solution = program->minimize();
    if (!solution || solution->answer == lp::Answer::kOptimal) return solution;
    return no_optimum();
  }

  // The candidates that have a share: the largest one of each root first, then by size.
  std::vector<std::size_t> by_share(const lp::ColumnSolution& solution) const {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (solution.values[i + 1] >= kNoShare) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return solution.values[a + 1] > solution.values[b + 1];
    });
    std::vector<std::size_t> firsts, others;
    std::set<std::size_t> has_one;
    for (const std::size_t i : order) {
      const bool is_first = has_one.insert(candidates_[i].root).second;
      (is_first ? firsts : others).push_back(i);
    }
    firsts.insert(firsts.end(), others.begin(), others.end());
    return firsts;
  }

  // solution: of the chosen candidates, in their order.
  OneWay shares(const std::vector<std::size_t>& chosen, const lp::ColumnSolution& solution) const {
    OneWay ways(roots_);
    std::vector<double> sums(roots_);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const Candidate& one = candidates_[chosen[i]];
      const double share = solution.values[i + 1];
      if (share < kNoShare) continue;
      ways[one.root].push_back({one.parents, share});
      sums[one.root] += share;
    }
    for (std::size_t root = 0; root < roots_; ++root) {
      for (WayShare& one : ways[root]) one.share /= sums[root];
    }
    return ways;
  }

  const Problem& problem_;
  const OneWayLimits& limits_;
  const std::size_t roots_;
  std::optional<lp::ColumnProgram> program_;
  std::vector<Candidate> candidates_;  // column i + 1 of program_
  std::set<std::pair<std::size_t, Parents>> known_;
};

}  // namespace

Result<OneWay> pack_one_way(const Problem& problem, const OneWayLimits& limits) {
  return OneWayPacking(problem, limits).run();
}

}  // namespace tally::plan
