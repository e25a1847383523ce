#include "control/plan/packing/placement.h"

#include <algorithm>

#include "control/plan/packing/selection.h"
#include "control/plan/packing/trees/fan_out.h"
#include "control/plan/packing/trees/images.h"

namespace tally::plan {
namespace {

constexpr std::size_t kImages = 256;  // to begin with, of all trees together
constexpr int kImageRounds = 40;
constexpr std::size_t kMostAlikeChildren = 16;
constexpr std::size_t kFewRows = 100;  // for which weights come near to the best shares
constexpr double kLeastShare = 1e-4;   // smaller ones are left out before the shares are mixed anew
constexpr double kCalmSlack = 5e-4;    // of the time, for trees that load no machine much
constexpr double kCalmSlackOfWeights = 5e-3;

class Placement {
 public:
  Placement(const Problem& alike, const Problem& single, const PlacementLimits& limits, bool use_lp)
      : alike_(alike), single_(single), limits_(limits), use_lp_(use_lp) {}

  Result<Generated> run(Generated even) const {
    auto calm = calm_shares(even);
    if (!calm) return calm.error();
    std::vector<Tree> trees;
    std::vector<double> shares;
    for (std::size_t i = 0; i < even.trees.size(); ++i) {
      if ((*calm)[i] < kLeastShare) continue;
      divide(even.trees[i].up);
      trees.push_back(std::move(even.trees[i]));
      shares.push_back((*calm)[i]);
    }
    const Images images(alike_);
    auto spread = images.spread(trees, shares, kImages);
    if (!use_lp_ && single_.rows().size() > kFewRows) {
      return as_generated(std::move(spread), even.lower_bound);
    }
    ImagePricing pricing(images, std::move(trees));
    return generate(single_, pricing, std::move(spread.trees),
                    {limits_.gap, even.lower_bound, limits_.max_height, kImageRounds}, use_lp_);
  }

 private:
  void divide(Parents& parents) const {
    divide_fan_out(parents, alike_.symmetry(), kMostAlikeChildren, limits_.max_height);
  }

  // A plan of few trees is uneven by about one tree's share of what it asks of one place. So many
  // trees with low peaks are better than few with high ones.
  Result<std::vector<double>> calm_shares(const Generated& even) const {
    std::vector<double> peaks;  // by tree: the seconds per byte of the busiest place, squared
    for (const Tree& tree : even.trees) {
      Tree divided = tree;
      divide(divided.up);
      double peak = 0;
      for (const auto& [row, seconds] : single_.rows().use_of(divided)) {
        peak = std::max(peak, seconds / even.tau);
      }
      peaks.push_back(peak * peak);
    }
    if (use_lp_) return cheapest_shares(alike_, even, even.tau * (1 + kCalmSlack), peaks, 0);
    return shares_of_cheapest(alike_, even, even.tau * (1 + kCalmSlackOfWeights), peaks);
  }

  // Weights do not come near the best shares of hundreds of trees in hundreds of rows soon. The
  // shares by which the trees were spread are better.
  Generated as_generated(Images::Spread spread, double lower_bound) const {
    Generated placed;
    placed.lower_bound = lower_bound;
    std::vector<double> busy(single_.rows().size(), 0);
    for (std::size_t i = 0; i < spread.trees.size(); ++i) {
      placed.uses.push_back(single_.rows().use_of(spread.trees[i]));
      for (const auto& [row, seconds] : placed.uses.back()) busy[row] += spread.shares[i] * seconds;
    }
    placed.trees = std::move(spread.trees);
    placed.shares = std::move(spread.shares);
    placed.tau = *std::max_element(busy.begin(), busy.end());
    return placed;
  }

  const Problem& alike_;
  const Problem& single_;
  const PlacementLimits& limits_;
  bool use_lp_;
};

}  // namespace

Result<Generated> place(const Problem& alike, const Problem& single, Generated even,
                        const PlacementLimits& limits, bool use_lp) {
  return Placement(alike, single, limits, use_lp).run(std::move(even));
}

}  // namespace tally::plan
