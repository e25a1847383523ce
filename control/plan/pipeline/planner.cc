#include "control/plan/pipeline/planner.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/plan/pipeline/gpu_order.h"
#include "control/plan/pipeline/iteration.h"

namespace tally::plan::pipeline {
namespace {

constexpr double kMostSteps = 1e9;
constexpr std::size_t kMostOrders = 5040;  // of 7 servers
// Steps of a search for each step of the bottleneck's program, as measured.
constexpr double kStepsWithScarceMemory = 20;
constexpr double kStepsOfIteration = 1000;

// Whether a stage may have to recompute blocks.
bool is_memory_scarce(const Profile& profile, const Cluster& cluster, const Options& options) {
  const auto most_in_flight = static_cast<double>(cluster.gpus.size());
  double bytes = 0;
  for (const Block& block : profile.blocks) {
    bytes += block.weights * (options.copies + most_in_flight) + block.stash * most_in_flight;
  }
  return std::any_of(cluster.gpus.begin(), cluster.gpus.end(),
                     [&](const Gpu& gpu) { return gpu.memory < bytes; });
}

// How many orders can be tried within kMostSteps.
std::size_t orders_within_bound(const Profile& profile, const Cluster& cluster,
                                const Options& options) {
  const auto l = static_cast<double>(profile.blocks.size());
  const auto g = static_cast<double>(cluster.gpus.size());
  double steps = l * l * g * g * g / 12 + g * g * g + 1;
  if (is_memory_scarce(profile, cluster, options)) steps *= kStepsWithScarceMemory;
  if (options.objective == Objective::kIteration) steps *= kStepsOfIteration;
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

// A single stage of all GPUs, however many replicas the options ask for.
std::optional<Partition> single_stage(const Profile& profile, const Cluster& cluster,
                                      const std::vector<std::size_t>& order, Options options) {
  options.replicas = 0;
  const StageCosts costs(profile, cluster, order, options);
  return evaluate(costs, {{costs.blocks(), costs.gpus()}});
}

// The best division of all orders that the searches try.
class Planner {
 public:
  Planner(const Profile& profile, const Cluster& cluster, const Options& options)
      : profile_(profile), cluster_(cluster), options_(options) {}

  const std::optional<Error>& error() const { return error_; }
  const std::optional<Partition>& best() const { return best_; }

  OrderSearch run() {
    const std::size_t most = orders_within_bound(profile_, cluster_, options_);
    const bool is_iteration = options_.objective == Objective::kIteration;
    if (!is_iteration || count_orders(cluster_, most) <= most) return search(options_, most);
    // Orders for the bottleneck are mostly good for the iteration, too, and found much sooner.
    Options steady = options_;
    steady.objective = Objective::kBottleneck;
    OrderSearch found = search(steady, orders_within_bound(profile_, cluster_, steady));
    found.is_exhaustive = false;
    best_.reset();
    if (!found.order.empty()) try_order(options_, found.order, kUnlimited);
    return found;
  }

 private:
  OrderSearch search(const Options& options, std::size_t most) {
    return best_order(
        cluster_,
        [&](std::span<const std::size_t> order, double limit) {
          return error_ ? kUnlimited : try_order(options, order, limit);
        },
        most);
  }

  // Keeps the division if it takes less than `limit`, and returns its time.
  double try_order(const Options& options, std::span<const std::size_t> order, double limit) {
    const StageCosts costs(profile_, cluster_, {order.begin(), order.end()}, options);
    const auto cuts = best_cuts(costs, limit);
    if (!cuts) error_ = cuts.error();
    if (!cuts || !*cuts) return kUnlimited;
    auto partition = evaluate(costs, **cuts);
    if (!partition || objective_time(*partition, options.objective) >= limit) return kUnlimited;
    best_ = std::move(partition);
    return objective_time(*best_, options.objective);
  }

  const Profile& profile_;
  const Cluster& cluster_;
  const Options& options_;
  std::optional<Error> error_;
  std::optional<Partition> best_;
};

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
  Planner planner(profile, cluster, options);
  const OrderSearch found = planner.run();
  if (planner.error()) return *planner.error();
  if (!planner.best()) return nothing_fits(options);
  PipelinePlan plan;
  plan.partition = *planner.best();
  plan.data_parallel = single_stage(profile, cluster, plan.partition.order, options);
  balance_memory(StageCosts(profile, cluster, plan.partition.order, options), plan.partition);
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
