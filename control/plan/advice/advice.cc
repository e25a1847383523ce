#include "control/plan/advice/advice.h"

#include <algorithm>
#include <utility>

#include "control/plan/advice/bottleneck.h"

namespace tally::plan {
namespace {

constexpr int kSteps = 8;  // of the factor of an upgrade, from 1 to the most
// By what a lower factor may be worse: its time, and what it saves.
constexpr double kMoreTime = 0.01, kLessGain = 0.05;
constexpr std::size_t kFewPlaces = 2;  // where a plan takes long

Vertex usual_helper(const Network& network) {
  const auto is_slower = [](const Vertex& a, const Vertex& b) {
    if (a.role != b.role) return a.role != Role::kHelper;
    return std::min(a.in, a.out) < std::min(b.in, b.out);
  };
  const auto machines = std::span(network.vertices).first(network.machines());
  Vertex helper = *std::max_element(machines.begin(), machines.end(), is_slower);
  helper.role = Role::kHelper;
  helper.name.clear();
  return helper;
}

class Adviser {
 public:
  Adviser(const Network& network, std::span<const VertexId> workers, const AdviceOptions& options)
      : network_(network),
        workers_(workers),
        options_(options),
        is_worker_(network.machines(), false),
        routes_(network),
        passages_(routes_) {
    for (const VertexId id : workers) is_worker_[id] = true;
  }

  Result<Advice> run(Certificate now, bool is_exact) {
    advice_.now = std::move(now);
    advice_.helper = options_.helper.value_or(usual_helper(network_));
    if (advice_.now.tau <= 0) return std::move(advice_);
    is_fast_ = is_exact;
    most_ = is_fast_ ? options_.most_places : std::min(kFewPlaces, options_.most_places);
    if (auto added = add_helpers(); !added) return added.error();
    if (auto added = add_upgrades(); !added) return added.error();
    const auto is_better = [](const auto& a, const auto& b) { return a.tau < b.tau; };
    std::stable_sort(advice_.helpers.begin(), advice_.helpers.end(), is_better);
    std::stable_sort(advice_.upgrades.begin(), advice_.upgrades.end(), is_better);
    return std::move(advice_);
  }

 private:
  Result<double> tau_of(const Network& changed) const {
    const auto plan = plan_packed(changed, workers_, options_.packing);
    if (!plan) return plan.error();
    return plan->domains[0].certificate->tau;
  }

  Outcome add_helpers() {
    for (const HelperPlace& place : helper_places(routes_, is_worker_)) {
      if (advice_.helpers.size() == most_) {
        ++advice_.not_tried;
        continue;
      }
      const auto tau = tau_of(with_helper(network_, place.at, advice_.helper));
      if (!tau) return tau.error();
      // At worst the helper does nothing, where the planner has no exact prices.
      advice_.helpers.push_back({place, std::min(*tau, advice_.now.tau)});
    }
    return Unit{};
  }

  // The time that no plan can beat with the upgrade at most_factor.
  double least_possible(const Upgrade& upgrade, const std::vector<double>& shares) const {
    double faster = 0;
    for (const std::size_t i : passages_of(upgrade, passages_)) faster += shares[i];
    return advice_.now.lower_bound / (1 + (options_.most_factor - 1) * faster);
  }

  bool is_of_use(double tau) const { return tau <= advice_.now.tau * (1 - options_.least_gain); }

  Outcome add_upgrades() {
    // Without prices nothing is known before a plan is made.
    const std::vector<double> shares = advice_.now.dual.empty()
                                           ? std::vector<double>(passages_.size(), 1)
                                           : bound_shares(passages_, advice_.now.dual);
    std::vector<std::pair<double, Upgrade>> hopeful;
    for (Upgrade& upgrade : possible_upgrades(network_, is_worker_)) {
      const double possible = least_possible(upgrade, shares);
      if (is_of_use(possible)) {
        hopeful.emplace_back(possible, std::move(upgrade));
      } else {
        ++advice_.of_no_use;
      }
    }
    std::stable_sort(hopeful.begin(), hopeful.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    if (hopeful.size() > most_) {
      advice_.not_tried += hopeful.size() - most_;
      hopeful.resize(most_);
    }
    for (auto& [possible, upgrade] : hopeful) {
      if (auto tried = try_upgrade(std::move(upgrade)); !tried) return tried;
    }
    return Unit{};
  }

  double factor_of(int step) const { return 1 + (options_.most_factor - 1) * step / kSteps; }

  // More speed never takes more time, so the least step that is enough is found by bisection.
  Outcome try_upgrade(Upgrade upgrade) {
    const auto best = tau_of(upgraded(network_, upgrade, options_.most_factor));
    if (!best) return best.error();
    if (!is_of_use(*best)) {
      ++advice_.of_no_use;
      return Unit{};
    }
    const double most_tau =
        std::min(*best * (1 + kMoreTime), *best + kLessGain * (advice_.now.tau - *best));
    double tau = *best;
    int too_slow = is_fast_ ? 0 : kSteps - 1, enough = kSteps;
    while (enough - too_slow > 1) {
      const int middle = (too_slow + enough) / 2;
      const auto found = tau_of(upgraded(network_, upgrade, factor_of(middle)));
      if (!found) return found.error();
      if (*found <= most_tau) {
        enough = middle;
        tau = *found;
      } else {
        too_slow = middle;
      }
    }
    advice_.upgrades.push_back({std::move(upgrade), factor_of(enough), tau});
    return Unit{};
  }

  const Network& network_;
  std::span<const VertexId> workers_;
  const AdviceOptions& options_;
  std::vector<bool> is_worker_;
  Routes routes_;
  Passages passages_;
  Advice advice_;
  bool is_fast_ = true;
  std::size_t most_ = 0;
};

}  // namespace

Result<Advice> advise(const Network& network, std::span<const VertexId> workers,
                      const AdviceOptions& options) {
  PackingReport report;
  auto plan = plan_packed(network, workers, options.packing, &report);
  if (!plan) return plan.error();
  return Adviser(network, workers, options)
      .run(std::move(*plan->domains[0].certificate), report.is_exact);
}

}  // namespace tally::plan
