#include "control/plan/packing/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

namespace tally::plan {
namespace {

class Generation {
 public:
  Generation(const Problem& problem, Pricing& pricing, const GenerationLimits& limits)
      : problem_(problem), pricing_(pricing), limits_(limits) {}

  Result<Generated> run(std::vector<Tree> first, bool use_lp) {
    if (auto ready = start(std::move(first), use_lp); !ready) return ready.error();
    for (;;) {
      const auto mixture = master_->mix();
      if (!mixture) return mixture.error();
      found_.tau = mixture->seconds;
      found_.shares = mixture->shares;
      if (is_close() || found_.rounds == limits_.rounds) break;
      ++found_.rounds;
      const auto grown = grow(*mixture);
      if (!grown) return grown.error();
      if (!*grown || is_close()) break;
    }
    found_.shares.resize(found_.trees.size(), 0);  // trees of the last round
    return std::move(found_);
  }

 private:
  bool is_close() const {
    return found_.tau - std::max(found_.lower_bound, limits_.lower_bound) <=
           limits_.gap * found_.tau;
  }

  Outcome start(std::vector<Tree> first, bool use_lp) {
    const std::vector<double> even(problem_.rows().size(),
                                   1 / static_cast<double>(problem_.rows().size()));
    auto priced = pricing_.price(problem_.rows().passage_prices(even));
    if (!priced) return priced.error();
    for (Tree& tree : priced->trees) first.push_back(std::move(tree));
    double unit = std::numeric_limits<double>::infinity();
    std::vector<Use> uses;
    for (const Tree& tree : first) {
      uses.push_back(problem_.rows().use_of(tree));
      double busiest = 0;
      for (const RowUse& one : uses.back()) busiest = std::max(busiest, one.seconds);
      unit = std::min(unit, busiest);
    }
    if (use_lp) {
      auto master = make_lp_master(problem_.rows().size(), unit);
      if (!master) return master.error();
      master_ = std::move(*master);
    } else {
      master_ = make_weights_master(problem_.rows().size(), limits_.gap / 4);
    }
    for (std::size_t i = 0; i < first.size(); ++i) {
      if (auto added = add(std::move(first[i]), std::move(uses[i])); !added) return added.error();
    }
    if (!found_.trees.empty()) return Unit{};
    return invalid(fmt::format("no tree of at most {} levels joins the {} workers; add links",
                               limits_.max_height, problem_.workers().size()));
  }

  // Adds the tree, unless it is too high or another uses all rows the same.
  Result<bool> add(Tree tree, Use use) {
    if (std::max(levels_of(tree.up), levels_of(tree.way_down())) > limits_.max_height) return false;
    std::vector<std::pair<std::size_t, double>> key;
    for (const auto& [row, seconds] : use) key.emplace_back(row, seconds);
    if (!known_.insert(std::move(key)).second) return false;
    if (auto added = master_->add(use); !added) return added.error();
    found_.trees.push_back(std::move(tree));
    found_.uses.push_back(std::move(use));
    return true;
  }

  // Prices the rows halfway to the best prices so far, because those of the master leap from round
  // to round (Wentges, "Weighted Dantzig-Wolfe decomposition", 1997). Takes the master's own when
  // that finds no new tree. Returns whether it found one.
  Result<bool> grow(const Mixture& mixture) {
    if (!best_.empty()) {
      std::vector<double> between = mixture.prices;
      for (std::size_t row = 0; row < between.size(); ++row) {
        between[row] = (between[row] + best_[row]) / 2;
      }
      const auto grown = grow_at(between, mixture);
      if (!grown || *grown) return grown;
    }
    return grow_at(mixture.prices, mixture);
  }

  Result<bool> grow_at(const std::vector<double>& row_prices, const Mixture& mixture) {
    const auto prices = problem_.rows().passage_prices(row_prices);
    auto priced = pricing_.price(prices);
    if (!priced) return priced.error();
    double capacity = 0;
    for (std::size_t i = 0; i < prices.size(); ++i) {
      capacity += prices[i] * problem_.passages().capacity(i);
    }
    found_.is_exact = found_.is_exact && priced->is_exact;
    const double bound = priced->least / capacity;
    if (bound > found_.lower_bound) {
      found_.lower_bound = bound;
      found_.prices = prices;
      best_ = row_prices;
    }
    bool grows = false;
    for (Tree& tree : priced->trees) {
      Use use = problem_.rows().use_of(tree);
      double price = 0;
      for (const auto& [row, seconds] : use) price += mixture.prices[row] * seconds;
      constexpr double kCheaper = 1 - 1e-7;
      if (price >= kCheaper * mixture.seconds) continue;
      const auto added = add(std::move(tree), std::move(use));
      if (!added) return added.error();
      grows = grows || *added;
    }
    return grows;
  }

  const Problem& problem_;
  Pricing& pricing_;
  const GenerationLimits& limits_;
  std::unique_ptr<Master> master_;
  std::set<std::vector<std::pair<std::size_t, double>>> known_;
  std::vector<double> best_;  // the rows' prices of the best bound
  Generated found_;
};

}  // namespace

Result<Generated> generate(const Problem& problem, Pricing& pricing, std::vector<Tree> first,
                           const GenerationLimits& limits, bool use_lp) {
  return Generation(problem, pricing, limits).run(std::move(first), use_lp);
}

}  // namespace tally::plan
