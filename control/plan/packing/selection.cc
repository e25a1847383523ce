#include "control/plan/packing/selection.h"

#include <algorithm>
#include <numeric>

#include "base/lp/column_program.h"
#include "control/plan/packing/trees/rooting.h"

namespace tally::plan {
namespace {

constexpr double kLevelsOfTime = 20;  // up and down together, for the whole time of a plan
constexpr double kNoShare = 0.25 / kWeightUnit;  // rounded, it would have no weight

}  // namespace

Result<Mixture> mix(const Problem& problem, const std::vector<Use>& uses, double unit,
                    bool use_lp) {
  std::unique_ptr<Master> master;
  if (use_lp) {
    auto made = make_lp_master(problem.rows().size(), unit);
    if (!made) return made.error();
    master = std::move(*made);
  } else {
    master = make_weights_master(problem.rows().size(), 1e-4);
  }
  for (const Use& use : uses) {
    if (auto added = master->add(use); !added) return added.error();
  }
  return master->mix();
}

Result<std::vector<double>> cheapest_shares(const Problem& problem, const Generated& generated,
                                            double seconds, const std::vector<double>& costs,
                                            double time_cost) {
  std::vector<lp::RowLimits> limits(problem.rows().size() + 1, {-lp::kUnlimited, 0});
  limits[0] = {1, 1};
  auto program = lp::ColumnProgram::of(std::move(limits));
  if (!program) return program.error();
  lp::Column time{{time_cost, 0, 1}, {}};  // in units of `seconds`
  for (std::size_t row = 0; row < problem.rows().size(); ++row) time.terms.push_back({row + 1, -1});
  if (auto added = program->add(std::move(time)); !added) return added.error();
  for (std::size_t i = 0; i < generated.trees.size(); ++i) {
    lp::Column column{{costs[i]}, {{0, 1}}};
    for (const auto& [row, use] : generated.uses[i]) {
      column.terms.push_back({row + 1, use / seconds});
    }
    if (auto added = program->add(std::move(column)); !added) return added.error();
  }
  const auto solution = program->minimize();
  if (!solution) return solution.error();
  if (solution->answer != lp::Answer::kOptimal) return generated.shares;
  return std::vector<double>(solution->values.begin() + 1, solution->values.end());
}

Result<std::vector<double>> shares_of_cheapest(const Problem& problem, const Generated& generated,
                                               double seconds, const std::vector<double>& costs) {
  std::vector<std::size_t> order(costs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return costs[a] < costs[b]; });
  std::vector<double> shares = generated.shares;
  for (std::size_t few = 1, many = order.size(); few < many;) {
    const std::size_t count = (few + many) / 2;
    std::vector<Use> uses;
    for (std::size_t i = 0; i < count; ++i) uses.push_back(generated.uses[order[i]]);
    const auto mixture = mix(problem, uses, generated.tau, false);
    if (!mixture) return mixture.error();
    if (mixture->seconds > seconds) {
      few = count + 1;
      continue;
    }
    many = count;
    shares.assign(order.size(), 0);
    for (std::size_t i = 0; i < count; ++i) shares[order[i]] = mixture->shares[i];
  }
  return shares;
}

Result<Selection> select_trees(const Problem& problem, const Generated& generated, double slack,
                               std::size_t most, bool use_lp) {
  std::vector<double> shares = generated.shares;
  if (use_lp) {
    std::vector<double> levels;
    for (const Tree& tree : generated.trees) {
      levels.push_back(levels_of(tree.up) + levels_of(tree.way_down()));
    }
    const double seconds = generated.tau * (1 + std::max(slack, 1e-7));
    auto flat = cheapest_shares(problem, generated, seconds, levels, kLevelsOfTime);
    if (!flat) return flat.error();
    shares = std::move(*flat);
  }
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return shares[a] > shares[b]; });
  while (order.size() > 1 && shares[order.back()] < kNoShare) order.pop_back();
  Selection selection;
  const bool is_cut = order.size() > most;
  if (is_cut) order.resize(most);
  std::sort(order.begin(), order.end());
  std::vector<Use> uses;
  for (const std::size_t i : order) {
    selection.trees.push_back(generated.trees[i]);
    selection.shares.push_back(shares[i]);
    uses.push_back(generated.uses[i]);
  }
  if (is_cut) {
    auto mixed = mix(problem, uses, generated.tau, use_lp);
    if (!mixed) return mixed.error();
    selection.shares = std::move(mixed->shares);
    selection.seconds = mixed->seconds;
  }
  const double total = std::accumulate(selection.shares.begin(), selection.shares.end(), 0.0);
  for (double& share : selection.shares) share /= total;
  return selection;
}

}  // namespace tally::plan
