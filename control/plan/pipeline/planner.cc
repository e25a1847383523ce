#include "control/plan/pipeline/planner.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/plan/pipeline/gpu_order.h"
#include "control/plan/pipeline/iteration.h"

namespace tally::plan::pipeline {
namespace {

constexpr double kMostSteps = 1e9;
constexpr std::size_t kMostOrders = 5040;  // of 7 servers
constexpr double kStepsOfIteration = 100;  // programs for each one of the bottleneck, about

std::size_t orders_within_bound(std::size_t blocks, std::size_t gpus, Objective objective) {
  const auto l = static_cast<double>(blocks), g = static_cast<double>(gpus);
  double steps = l * l * g * g * g / 12 + g * g * g + 1;
  if (objective == Objective::kIteration) steps *= kStepsOfIteration;
  return static_cast<std::size_t>(
      std::clamp(kMostSteps / steps, 1.0, static_cast<double>(kMostOrders)));
}

Result<std::optional<std::vector<Cut>>> best_cuts(const StageCosts& costs, double limit) {
  if (costs.options().objective == Objective::kIteration) return least_iteration(costs, limit);
  return least_bottleneck(costs, limit);
}

double objective_time(const Partition& partition, Objective objective) {
  return objective == Objective::kIteration ? partition.iteration : partition.bottleneck;
}

Error nothing_fits(const Options& options) {
  return Error{Status::kRefused,
               fmt::format("no division fits the memories of the GPUs{}; use more GPUs, GPUs with "
                           "more memory, a smaller microbatch, or fewer copies of the weights",
                           options.recompute ? ", even when stages recompute blocks"
                                             : " without recomputation: allow it")};
}

}  // namespace

Result<PipelinePlan> plan_pipeline(const Profile& profile, const Cluster& cluster,
                                   const Options& options) {
  if (auto fine = check(profile, cluster, options); !fine) return fine.error();
  std::optional<Error> failed;
  std::optional<Partition> best;
  const auto time_of_order = [&](std::span<const std::size_t> order, double limit) {
    if (failed) return kUnlimited;
    const StageCosts costs(profile, cluster, {order.begin(), order.end()}, options);
    const auto cuts = best_cuts(costs, limit);
    if (!cuts) {
      failed = cuts.error();
      return kUnlimited;
    }
    if (!*cuts) return kUnlimited;
    auto partition = evaluate(costs, **cuts);
    if (!partition || objective_time(*partition, options.objective) >= limit) return kUnlimited;
    best = std::move(partition);
    return objective_time(*best, options.objective);
  };
  const std::size_t most =
      orders_within_bound(profile.blocks.size(), cluster.gpus.size(), options.objective);
  const OrderSearch found = best_order(cluster, time_of_order, most);
  if (failed) return *failed;
  if (!best) return nothing_fits(options);
  PipelinePlan plan;
  const StageCosts costs(profile, cluster, best->order, options);
  plan.data_parallel = evaluate(costs, {{costs.blocks(), costs.gpus()}});
  plan.partition = std::move(*best);
  balance_memory(costs, plan.partition);
  plan.is_exhaustive = found.is_exhaustive;
  plan.orders_tried = found.tried;
  return plan;
}

Profile merge_blocks(const Profile& profile, std::size_t most) {
  Profile merged = profile;
  std::vector<Block>& blocks = merged.blocks;
  const auto seconds = [](const Block& block) {
    double sum = 0;
    for (const Times& times : block.times) sum += times.forward + times.backward;
    return sum;
  };
  while (blocks.size() > most) {
    std::size_t least = 0;
    for (std::size_t i = 1; i + 1 < blocks.size(); ++i) {
      if (seconds(blocks[i]) + seconds(blocks[i + 1]) <
          seconds(blocks[least]) + seconds(blocks[least + 1])) {
        least = i;
      }
    }
    Block& first = blocks[least];
    const Block& second = blocks[least + 1];
    for (std::size_t type = 0; type < first.times.size(); ++type) {
      first.times[type].forward += second.times[type].forward;
      first.times[type].backward += second.times[type].backward;
    }
    first.name += "+" + second.name;
    first.output = second.output;
    first.stash += second.stash;
    first.weights += second.weights;
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(least) + 1);
  }
  return merged;
}

}  // namespace tally::plan::pipeline
