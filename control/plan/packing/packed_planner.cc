#include "control/plan/packing/packed_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/lp/lp.h"
#include "control/plan/model/dual_bound.h"
#include "control/plan/model/load.h"
#include "control/plan/model/validate.h"
#include "control/plan/packing/few_trees.h"
#include "control/plan/packing/full_bisection.h"
#include "control/plan/packing/placement.h"
#include "control/plan/packing/same_way.h"
#include "control/plan/packing/selection.h"
#include "control/plan/packing/trees/first_trees.h"
#include "control/plan/packing/trees/two_way_pricing.h"
#include "control/plan/stars/star_planner.h"

namespace tally::plan {
namespace {

// For so many the cheapest trees are found soon where directions differ, and with them a bound for
// any way down.
constexpr std::size_t kFewDirectedMachines = 16;
// Other trees must be so much faster, because they may have more levels.
constexpr double kLeastGain = 1.005;
constexpr int kSlowRounds = 60;  // where every round takes long

Result<std::vector<VertexId>> check_workers(const Network& network,
                                            std::span<const VertexId> workers) {
  if (network.machines() > kMaxPackedMachines) {
    return invalid(fmt::format("{} machines: this planner takes at most {}; leave out helpers",
                               network.machines(), kMaxPackedMachines));
  }
  std::vector<VertexId> sorted(workers.begin(), workers.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  if (sorted.empty()) return invalid("no worker: a plan needs at least one");
  for (const VertexId id : sorted) {
    if (id < network.machines() && network.vertices[id].role == Role::kWorker) continue;
    return invalid(fmt::format("worker {}: must be the id of a node whose role is worker", id));
  }
  return sorted;
}

// Returns the plan with the time of its trees on its network, and the bound that its prices show
// there.
Result<Plan> certified(Plan plan, std::uint32_t max_height, PackingReport& report) {
  Routes routes(plan.network);
  Domain& domain = plan.domains.front();
  Certificate& certificate = *domain.certificate;
  certificate.tau = evaluate(routes, domain.classes.front()).tau;
  if (!certificate.dual.empty()) {
    const auto bound = dual_bound(routes, domain.workers, certificate.dual);
    if (!bound) return bound.error();
    certificate.lower_bound = std::min(*bound, certificate.tau);
  }
  report.plan = certificate.tau;
  report.lower_bound = certificate.lower_bound;
  if (auto outcome = validate(plan, Limits{max_height}); !outcome) return outcome.error();
  return plan;
}

class Planner {
 public:
  Planner(const Network& network, const std::vector<VertexId>& workers,
          const PackingOptions& options)
      : network_(network),
        options_(options),
        use_lp_(options.solver == Solver::kLinearProgram && lp::is_available()),
        even_(network, workers, UseSymmetry::kYes),
        single_(network, workers, UseSymmetry::kNo) {}

  Result<Plan> run(PackingReport& report) {
    auto trees = choose_trees(report);
    if (!trees) return trees.error();
    return make_plan(*trees, report);
  }

 private:
  Result<Selection> choose_trees(PackingReport& report) {
    if (even_.workers().size() == 1) {
      Parents alone(even_.machines(), kIsAbsent);
      alone[even_.workers()[0]] = kIsRoot;
      return Selection{{{0, alone, {}}}, {1}};
    }
    const auto closed = options_.use_closed_form ? full_bisection(even_) : std::nullopt;
    if (closed && closed->trees.size() <= options_.max_trees && options_.max_height > 0) {
      method_ = "star";
      prices_ = closed->prices;
      report.any_tree = report.served = closed->tau;
      return Selection{closed->trees, closed->shares};
    }
    method_ = use_lp_ ? "tpp-cg" : "tpp-mwu";
    if (even_.is_two_way() && !TwoWayPricing(even_, kAnyHeight).is_exact()) {
      auto by_shape = pack_by_shape();
      if (!by_shape) return by_shape.error();
      report.is_exact = false;
      if (!by_shape->trees.empty()) return select(*by_shape, report);
    }
    auto any = pack(kAnyHeight, WayDown::kAnyWay, first_trees(even_), 0);
    if (!any) return any.error();
    report.any_tree = any->tau;
    report.is_exact = any->is_exact;
    prices_ = any->prices;
    auto served = limit(std::move(*any));
    if (!served) return served.error();
    report.served = served->tau;
    const Symmetry& symmetry = even_.symmetry();
    const bool has_others =
        symmetry.groups.size() < even_.machines() || symmetry.sets.size() < symmetry.racks.size();
    if (!has_others) return select(*served, report);
    auto placed = place(even_, single_, std::move(*served), placement(), use_lp_);
    if (!placed) return placed.error();
    return select(*placed, report);
  }

  PlacementLimits placement() const { return {options_.max_height, options_.gap}; }

  Result<Selection> select(const Generated& generated, PackingReport& report) const {
    if (report.served == 0) report.any_tree = report.served = generated.tau;
    auto chosen =
        select_trees(single_, generated, options_.level_slack, options_.max_trees, use_lp_);
    const bool is_cut = chosen && chosen->seconds > 0;
    if (!is_cut || !single_.is_two_way() || single_.machines() > kFewMachines) return chosen;
    TwoWayPricing pricing(single_, options_.max_height, TwoWayPricing::Helpers::kOneByOne);
    auto few = few_trees(single_, pricing, options_.max_trees, generated.tau, use_lp_);
    const bool is_better = few && few->seconds * kLeastGain < chosen->seconds &&
                           std::all_of(few->trees.begin(), few->trees.end(),
                                       [this](const Tree& tree) { return is_served(tree); });
    return is_better ? few : chosen;
  }

  Result<Generated> pack(std::uint32_t max_height, WayDown way, std::vector<Tree> first,
                         double lower_bound) const {
    GenerationLimits limits{options_.gap, lower_bound, max_height};
    if (even_.is_two_way()) {
      TwoWayPricing pricing(even_, max_height);
      return generate(even_, pricing, std::move(first), limits, use_lp_);
    }
    DirectedPricing pricing(even_, max_height, way);
    if (!pricing.is_exact()) limits.rounds = kSlowRounds;
    return generate(even_, pricing, std::move(first), limits, use_lp_);
  }

  // Where too many helpers differ to try all choices of them: packs as if their speeds were equal
  // and each row's passages limited the bytes together. That has exact prices and shows a bound.
  // Then it places the trees in the network as it is. No tree: the shape has too many choices too,
  // or its trees cannot be flat.
  Result<Generated> pack_by_shape() {
    const Problem shape(network_, even_.workers(), UseSymmetry::kShape);
    TwoWayPricing exact(shape, kAnyHeight);
    if (!exact.is_exact()) return Generated{};
    auto relaxed = generate(shape, exact, first_trees(shape), {options_.gap}, use_lp_);
    if (!relaxed) return relaxed;
    prices_ = relaxed->prices;
    for (std::size_t i = 0; i < relaxed->trees.size(); ++i) {
      if (is_served(relaxed->trees[i])) continue;
      flatten(relaxed->trees[i].up, true);
      if (!is_served(relaxed->trees[i])) return Generated{};
      relaxed->uses[i] = shape.rows().use_of(relaxed->trees[i]);
    }
    const double bound = relaxed->lower_bound;
    auto placed = place(shape, single_, std::move(*relaxed), placement(), use_lp_);
    const bool is_close = !placed || placed->tau <= bound * (1 + options_.gap);
    if (is_close || even_.machines() > kFewMachines) return placed;
    TwoWayPricing pricing(single_, options_.max_height);
    auto more = generate(single_, pricing, std::move(placed->trees),
                         {options_.gap, bound, options_.max_height, kSlowRounds}, use_lp_);
    if (more && more->lower_bound > bound) prices_ = more->prices;
    return more;
  }

  bool is_served(const Tree& tree) const {
    return height(tree) <= options_.max_height &&
           (tree.down.empty() || options_.way_down == WayDown::kAnyWay);
  }

  // Leaves the others out: later steps may choose any of the trees. Precondition: no other tree has
  // a share.
  Generated only_served(Generated generated) const {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < generated.trees.size(); ++i) {
      if (!is_served(generated.trees[i])) continue;
      if (kept != i) {
        generated.trees[kept] = std::move(generated.trees[i]);
        generated.uses[kept] = std::move(generated.uses[i]);
        generated.shares[kept] = generated.shares[i];
      }
      ++kept;
    }
    generated.trees.resize(kept);
    generated.uses.resize(kept);
    generated.shares.resize(kept);
    return generated;
  }

  // Packs anew with trees that are not too high and whose results go a way that is allowed, when
  // some are not.
  Result<Generated> limit(Generated any) {
    bool is_fine = true;
    for (std::size_t i = 0; i < any.trees.size(); ++i) {
      is_fine = is_fine && (any.shares[i] <= 0 || is_served(any.trees[i]));
    }
    if (is_fine) return only_served(std::move(any));
    std::vector<Tree> first = first_trees(even_);
    for (Tree& tree : any.trees) {
      flatten(tree.up, true);
      if (!tree.down.empty()) flatten(tree.down, false);
      if (is_served(tree)) first.push_back(std::move(tree));
    }
    auto limited = pack(options_.max_height, options_.way_down, std::move(first), any.lower_bound);
    if (!limited) return limited;
    if (limited->lower_bound > any.lower_bound) {
      prices_ = limited->prices;
    } else {
      limited->lower_bound = any.lower_bound;
    }
    return limited;
  }

  std::uint32_t height(const Tree& tree) const {
    return std::max(levels_of(tree.up), levels_of(tree.way_down()));
  }

  void flatten(Parents& parents, bool up) const {
    const auto price_of = [&](VertexId child, VertexId parent) {
      double price = 0;
      const auto add = [&](std::size_t passage) { price += prices_[passage]; };
      const Passages& passages = even_.passages();
      const bool found = passages.cross(up ? child : parent, up ? parent : child, add) &&
                         passages.cross(up ? parent : child, up ? child : parent, add);
      return found ? price : std::numeric_limits<double>::infinity();
    };
    limit_height(parents, options_.max_height, price_of);
    drop_idle_leaves(parents, even_.is_worker());
  }

  Result<Plan> make_plan(const Selection& selection, PackingReport& report) {
    Plan plan;
    plan.epoch = options_.epoch;
    plan.method = method_;
    plan.network = network_;
    Domain domain;
    domain.name = "all";
    domain.workers = even_.workers();
    SizeClass size_class{std::nullopt, options_.chunk, options_.window, {}};
    const auto weights = round_weights(selection.shares);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] == 0) continue;
      size_class.trees.push_back(selection.trees[i]);
      size_class.trees.back().weight = weights[i];
    }
    domain.classes.push_back(std::move(size_class));
    domain.certificate.emplace();
    for (std::size_t i = 0; i < prices_.size(); ++i) {
      const auto& [passage, from, to, capacity] = even_.passages().at(i);
      if (prices_[i] > 0) domain.certificate->dual.push_back({passage, from, to, prices_[i]});
    }
    plan.domains.push_back(std::move(domain));
    return certified(std::move(plan), options_.max_height, report);
  }

  const Network& network_;
  const PackingOptions& options_;
  bool use_lp_;
  Problem even_;
  Problem single_;
  std::string method_ = "star";
  std::vector<double> prices_;  // by passage: those of the best bound
};

}  // namespace

Result<Plan> plan_packed(const Network& network, std::span<const VertexId> workers,
                         const PackingOptions& options, PackingReport* report) {
  if (auto outcome = validate(network); !outcome) return outcome.error();
  const auto sorted = check_workers(network, workers);
  if (!sorted) return sorted.error();
  PackingReport unused;
  PackingReport& reached = report != nullptr ? *report : unused;
  reached = {};
  const bool is_one_way = options.way_down == WayDown::kSameWay;
  if (is_one_way && network.machines() > kFewDirectedMachines) {
    if (const auto slower = slower_directions(network, *sorted)) {
      auto plan = Planner(*slower, *sorted, options).run(reached);
      if (!plan) return plan;
      plan->network = network;
      return certified(std::move(*plan), options.max_height, reached);
    }
  }
  return Planner(network, *sorted, options).run(reached);
}

}  // namespace tally::plan
