#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "control/plan/packing/master.h"

namespace tally::plan {
namespace {

constexpr double kMostMixSteps = 20000;
constexpr double kFewestMixSteps = 400;
constexpr double kMostMixWork = 2e7;  // uses of rows over all steps: a fraction of a second
constexpr int kStepsBetweenChecks = 25;

// One side of the game. It keeps the sum of what each choice has cost so far.
class Player {
 public:
  explicit Player(std::vector<double> start) : start_(std::move(start)) { restart(start_); }

  const std::vector<double>& mixture() const { return mixture_; }
  std::vector<double> mean() const {
    std::vector<double> mean = sum_;
    for (double& one : mean) one /= steps_;
    return mean;
  }

  void restart(const std::vector<double>& mixture) {
    start_ = mixture_ = mixture;
    costs_.assign(mixture.size(), 0);
    sum_.assign(mixture.size(), 0);
    last_.assign(mixture.size(), 0);
    steps_ = 0;
  }

  // Takes what each choice cost in this step, and expects the same again in the next.
  void step(const std::vector<double>& costs, double rate) {
    ++steps_;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < costs.size(); ++i) {
      sum_[i] += mixture_[i];
      costs_[i] += costs[i];
      last_[i] = costs[i];
      least = std::min(least, costs_[i] + last_[i]);
    }
    double total = 0;
    for (std::size_t i = 0; i < costs.size(); ++i) {
      constexpr double kLeast = 1e-12;  // so that each choice can come back
      mixture_[i] = (start_[i] + kLeast) * std::exp(rate * (least - costs_[i] - last_[i]));
      total += mixture_[i];
    }
    for (double& one : mixture_) one /= total;
  }

 private:
  std::vector<double> start_;
  std::vector<double> mixture_;
  std::vector<double> costs_;
  std::vector<double> last_;
  std::vector<double> sum_;
  double steps_ = 0;
};

class WeightsMaster : public Master {
 public:
  WeightsMaster(std::size_t rows, double gap) : rows_(rows), gap_(gap) {}

  Outcome add(const Use& use) override {
    uses_.push_back(use);
    return Unit{};
  }

  Result<Mixture> mix() override {
    std::vector<double> even_rows(rows_, 1 / static_cast<double>(rows_));
    Player rows(prices_.empty() ? even_rows : prices_);
    // New trees begin with the weight of an average tree.
    std::vector<double> shares = shares_;
    shares.resize(uses_.size(), 1 / static_cast<double>(uses_.size()));
    const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (double& share : shares) share /= total;
    Player trees(shares);
    double most = 0, work = 1;
    for (const Use& use : uses_) {
      work += static_cast<double>(use.size());
      for (const RowUse& one : use) most = std::max(most, one.seconds);
    }
    double gap_at_restart = std::numeric_limits<double>::infinity(),
           least_gap = std::numeric_limits<double>::infinity();
    const auto steps =
        static_cast<int>(std::clamp(kMostMixWork / work, kFewestMixSteps, kMostMixSteps));
    for (int step = 1; step <= steps; ++step) {
      std::vector<double> busy = busy_rows(trees.mixture());
      for (double& one : busy) one = -one;
      trees.step(tree_prices(rows.mixture()), 1 / most);
      rows.step(busy, 1 / most);
      if (step % kStepsBetweenChecks != 0) continue;
      const double gap = keep_if_better(trees.mean(), rows.mean(), least_gap);
      if (least_gap <= gap_) break;
      if (gap > gap_at_restart / 2) continue;
      gap_at_restart = gap;
      rows.restart(prices_);
      trees.restart(shares_);
    }
    const auto busy = busy_rows(shares_);
    return Mixture{*std::max_element(busy.begin(), busy.end()), shares_, prices_};
  }

 private:
  std::vector<double> busy_rows(const std::vector<double>& shares) const {
    std::vector<double> busy(rows_, 0);
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      for (const auto& [row, seconds] : uses_[i]) busy[row] += shares[i] * seconds;
    }
    return busy;
  }

  std::vector<double> tree_prices(const std::vector<double>& prices) const {
    std::vector<double> of_trees(uses_.size(), 0);
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      for (const auto& [row, seconds] : uses_[i]) of_trees[i] += prices[row] * seconds;
    }
    return of_trees;
  }

  // Returns the relative gap between the busiest row and the cheapest tree.
  double keep_if_better(const std::vector<double>& shares, const std::vector<double>& prices,
                        double& least_gap) {
    const auto busy = busy_rows(shares), of_trees = tree_prices(prices);
    const double most = *std::max_element(busy.begin(), busy.end());
    const double least = *std::min_element(of_trees.begin(), of_trees.end());
    const double gap = (most - least) / most;
    if (gap < least_gap) {
      least_gap = gap;
      shares_ = shares;
      prices_ = prices;
    }
    return gap;
  }

  std::size_t rows_;
  double gap_;
  std::vector<Use> uses_;
  std::vector<double> shares_;  // the best so far
  std::vector<double> prices_;
};

}  // namespace

std::unique_ptr<Master> make_weights_master(std::size_t rows, double gap) {
  return std::make_unique<WeightsMaster>(rows, gap);
}

}  // namespace tally::plan
