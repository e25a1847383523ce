#include "control/plan/rs_ag/rs_ag_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "control/plan/forestcoll/network_bound.h"
#include "control/plan/model/load.h"
#include "control/plan/model/validate.h"
#include "control/plan/packing/places/problem.h"
#include "control/plan/rs_ag/one_way.h"

namespace tally::plan {
namespace {

constexpr double kLeastShare = 1e-9;
constexpr double kGap = 1e-3;                    // to the bound, at which the search for trees ends
constexpr double kRounding = 0.01;               // of a worker's weights: 1 in 65536 / 256
constexpr std::uint64_t kBlockBytes = 16 << 10;  // between boundaries of parts, of f32
constexpr std::uint64_t kBlocksOfOwner = 4;

// A way up, a way down, and the part of their root's elements that the two carry.
struct TwoWays {
  Parents up, down;
  double share = 0;
};

// Takes what both ways can carry.
void join(WayShare& up, WayShare& down, std::vector<TwoWays>& joined) {
  const double share = std::min(up.share, down.share);
  if (share < kLeastShare) return;
  joined.push_back({up.parents, down.parents, share});
  up.share -= share;
  down.share -= share;
}

// Gives each way up a way down: itself as far as possible, because two ways are two trees of a job.
std::vector<TwoWays> joined(std::vector<WayShare> ups, std::vector<WayShare> downs) {
  std::vector<TwoWays> all;
  for (const bool same : {true, false}) {
    for (WayShare& up : ups) {
      for (WayShare& down : downs) {
        if (!same || up.parents == down.parents) join(up, down, all);
      }
    }
  }
  return all;
}

// The trees of all roots, in the order of the workers. Weights are rounded on the running sum, so
// that each root's part is what its worker owns.
std::vector<Tree> trees_of(const OneWay& ups, const OneWay& downs) {
  std::vector<Tree> trees;
  double before = 0;
  std::uint32_t given = 0;
  for (std::size_t root = 0; root < ups.size(); ++root) {
    for (TwoWays& one : joined(ups[root], downs[root])) {
      before += one.share / static_cast<double>(ups.size());
      const auto until = static_cast<std::uint32_t>(std::lround(before * kWeightUnit));
      if (until == given) continue;
      Tree& tree = trees.emplace_back(Tree{until - given, std::move(one.up), {}});
      if (one.down != tree.up) tree.down = std::move(one.down);
      given = until;
    }
  }
  return trees;
}

Result<std::vector<Tree>> find_trees(const Network& network, std::span<const VertexId> workers,
                                     const forestcoll::WaySeconds& bound,
                                     const RsAgOptions& options) {
  if (workers.size() > options.max_trees) {
    return invalid(fmt::format("{} workers, each the root of a tree: nodes serve {} trees",
                               workers.size(), options.max_trees));
  }
  const Problem problem(network, workers, UseSymmetry::kNo);
  // Joined, two ways that differ are at most as many pairs of trees as both have together.
  const std::size_t few = options.max_trees / 4;
  const bool same_way = problem.is_two_way() || workers.size() > few;
  const std::size_t most = same_way ? options.max_trees : few;
  const auto ups = pack_one_way(problem, {true, bound.up, kGap, options.max_height, most});
  if (!ups) return ups.error();
  if (same_way) return trees_of(*ups, *ups);
  const auto downs = pack_one_way(problem, {false, bound.down, kGap, options.max_height, most});
  if (!downs) return downs.error();
  return trees_of(*ups, *downs);
}

// Operations of which a root would own few blocks are cut from their home tree on: their blocks are
// spread over all roots, and few of them would be at their owners.
std::vector<SizeClass> classes_of(std::vector<Tree> trees, std::size_t workers,
                                  const RsAgOptions& options) {
  SizeClass large{std::nullopt, options.chunk, 0, std::move(trees)};
  large.rs_ag = true;
  if (options.one_class) return {std::move(large)};
  SizeClass small = large;
  small.max_bytes = kBlocksOfOwner * kBlockBytes * workers - 1;
  small.divided = true;
  return {std::move(small), std::move(large)};
}

}  // namespace

Result<Plan> plan_rs_ag(const Network& network, std::span<const VertexId> workers,
                        const RsAgOptions& options) {
  if (auto valid = validate(network); !valid) return valid.error();
  const auto bound = forestcoll::least_seconds(network, workers);
  if (!bound) return bound.error();
  auto trees = find_trees(network, workers, *bound, options);
  if (!trees) return trees.error();
  Plan plan;
  plan.epoch = options.epoch;
  plan.method = "rs-ag-cg";
  plan.network = network;
  Domain domain;
  domain.name = "all";
  domain.workers.assign(workers.begin(), workers.end());
  domain.classes = classes_of(std::move(*trees), workers.size(), options);
  Routes routes(plan.network);
  const double tau = evaluate(routes, domain.classes.back()).tau;
  // Weights are rounded, so a tree may carry a little less than its share.
  const double least = std::max(bound->up, bound->down);
  if (least > tau * (1 + kRounding)) {
    return Error{Status::kInternal,
                 fmt::format("a plan of {} s per byte is below the bound of {}", tau, least)};
  }
  domain.certificate = Certificate{tau, std::min(least, tau)};
  plan.domains.push_back(std::move(domain));
  if (auto valid = validate(plan, Limits{options.max_height}); !valid) return valid.error();
  return plan;
}

}  // namespace tally::plan
