// Instances of the pipeline planner's problem for tests, and a search of all divisions that shares
// no code with the planner.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "control/plan/pipeline/partition.h"

namespace tally::plan::pipeline {

struct Instance {
  Profile profile;
  Cluster cluster;
  Options options;
};

inline std::vector<std::size_t> in_order(const Cluster& cluster) {
  std::vector<std::size_t> order(cluster.gpus.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

// GPUs of speed 1 with the same bandwidth between any two, each in a server of its own.
inline Cluster equal_gpus(std::size_t count, double bandwidth) {
  Cluster cluster;
  for (std::size_t i = 0; i < count; ++i) cluster.gpus.push_back({.server = i});
  cluster.bandwidth.assign(count * count, bandwidth);
  return cluster;
}

// Two servers of two GPUs each.
inline Cluster two_servers(double inside, double between) {
  Cluster cluster = equal_gpus(4, between);
  for (std::size_t i = 0; i < 4; ++i) cluster.gpus[i].server = i / 2;
  for (std::size_t i = 0; i < 4; ++i) cluster.bandwidth[i * 4 + (i ^ 1)] = inside;
  return cluster;
}

// `count` equal blocks. A recomputed block keeps its input, and the input of the first is no cost.
inline Profile equal_blocks(std::size_t count, const Block& block) {
  Profile profile{{"gpu"}, {}};
  for (std::size_t i = 0; i < count; ++i) {
    profile.blocks.push_back(block);
    profile.blocks.back().kept = i == 0 ? 0 : block.output;
  }
  return profile;
}

// The time of a stage, tried with every set of recomputed blocks. `iteration`: without the sync.
struct NaiveStage {
  double compute = kUnlimited;
  double sync = 0;
  double time = kUnlimited;
};

inline NaiveStage naive_stage(const Instance& instance, const std::vector<std::size_t>& order,
                              const StageRange& range) {
  const auto& [profile, cluster, options] = instance;
  const double r = static_cast<double>(range.end_gpu - range.first_gpu);
  const double later = static_cast<double>(order.size() - range.first_gpu);
  const double flying = std::ceil(later / r);
  double least_memory = kUnlimited, slowest_pair = kUnlimited, least_speed = kUnlimited;
  for (std::size_t a = range.first_gpu; a < range.end_gpu; ++a) {
    least_memory = std::min(least_memory, cluster.gpus[order[a]].memory);
    least_speed = std::min(least_speed, cluster.gpus[order[a]].speed);
    for (std::size_t b = range.first_gpu; b < range.end_gpu; ++b) {
      if (a == b) continue;
      slowest_pair = std::min(slowest_pair, cluster.bandwidth[order[a] * order.size() + order[b]]);
    }
  }
  const std::size_t count = range.end_block - range.first_block;
  NaiveStage best;
  if (options.replicas != 0 && range.replicas() != options.replicas) return best;
  for (std::uint32_t set = 0; set < (options.recompute ? 1u << count : 1u); ++set) {
    double seconds = 0, backward = 0, weights = 0, stash = 0, peak = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const Block& block = profile.blocks[range.first_block + i];
      const bool is_recomputed = (set >> i & 1) != 0;
      seconds += block.times[0].forward * (is_recomputed ? 2 : 1) + block.times[0].backward;
      backward += block.times[0].backward;
      weights += block.weights;
      stash += is_recomputed ? block.kept : block.stash;
      if (is_recomputed) peak = std::max(peak, block.stash);
    }
    const double versions = options.versions == Versions::kOne   ? 1
                            : options.versions == Versions::kTwo ? 2
                                                                 : flying;
    if (weights * (options.copies + versions) + flying * stash + peak > least_memory) continue;
    double rate = 0;
    for (std::size_t a = range.first_gpu; a < range.end_gpu; ++a) {
      rate += cluster.gpus[order[a]].speed;
    }
    if (options.dispatch == Dispatch::kRoundRobin) rate = r * least_speed;
    double sync = r > 1 ? 2 * (r - 1) / (r * slowest_pair) * weights : 0;
    if (options.overlap) sync = std::max(0.0, sync - backward / least_speed);
    const double compute = seconds / rate;
    if (compute >= best.compute) continue;
    best = {compute, sync, compute + sync / (r * options.accumulate)};
  }
  return best;
}

inline double naive_transfer(const Instance& instance, const std::vector<std::size_t>& order,
                             std::size_t cut, std::size_t first, std::size_t middle,
                             std::size_t end) {
  double slowest = kUnlimited;
  for (std::size_t a = first; a < middle; ++a) {
    for (std::size_t b = middle; b < end; ++b) {
      slowest = std::min({slowest, instance.cluster.bandwidth[order[a] * order.size() + order[b]],
                          instance.cluster.bandwidth[order[b] * order.size() + order[a]]});
    }
  }
  const std::size_t pairs = std::min(middle - first, end - middle);
  return instance.profile.blocks[cut - 1].output / (static_cast<double>(pairs) * slowest);
}

// Calls visit(cuts) with each division of the blocks over the GPUs.
template <typename Visit>
void each_division(std::size_t blocks, std::size_t gpus, std::vector<Cut>& cuts, Visit visit) {
  const Cut last = cuts.empty() ? Cut{} : cuts.back();
  cuts.push_back({blocks, gpus});
  visit(cuts);
  cuts.pop_back();
  for (std::size_t block = last.end_block + 1; block < blocks; ++block) {
    for (std::size_t gpu = last.end_gpu + 1; gpu < gpus; ++gpu) {
      cuts.push_back({block, gpu});
      each_division(blocks, gpus, cuts, visit);
      cuts.pop_back();
    }
  }
}

// The bottleneck or the iteration time of a division, by options.objective.
inline double naive_time(const Instance& instance, const std::vector<std::size_t>& order,
                         const std::vector<Cut>& cuts) {
  double sum = 0, slowest = 0, slowest_with_sync = 0, sync = 0;
  StageRange range;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    range.end_block = cuts[i].end_block;
    range.end_gpu = cuts[i].end_gpu;
    const NaiveStage stage = naive_stage(instance, order, range);
    const double sent = i + 1 == cuts.size()
                            ? 0
                            : naive_transfer(instance, order, range.end_block, range.first_gpu,
                                             range.end_gpu, cuts[i + 1].end_gpu);
    sum += stage.compute + sent;
    slowest = std::max({slowest, stage.compute, sent});
    slowest_with_sync = std::max({slowest_with_sync, stage.time, sent});
    sync = std::max(sync, stage.sync);
    range.first_block = range.end_block;
    range.first_gpu = range.end_gpu;
  }
  if (instance.options.objective == Objective::kBottleneck) return slowest_with_sync;
  return sum + (instance.options.microbatches - 1.0) * slowest + sync;
}

// The least time of all divisions; kUnlimited when none fits.
inline double naive_best(const Instance& instance, const std::vector<std::size_t>& order) {
  double best = kUnlimited;
  std::vector<Cut> cuts;
  each_division(instance.profile.blocks.size(), order.size(), cuts,
                [&](const std::vector<Cut>& division) {
                  best = std::min(best, naive_time(instance, order, division));
                });
  return best;
}

class RandomInstances {
 public:
  explicit RandomInstances(std::uint32_t seed) : random_(seed) {}

  std::uint32_t pick(std::uint32_t choices) {
    return static_cast<std::uint32_t>(random_() % choices);
  }
  double value(std::uint32_t most) { return 1 + pick(most * 16) / 16.0; }

  // Up to 6 blocks and 4 GPUs, of one type. In half of the instances memory is scarce.
  Instance next() {
    Instance made;
    made.profile.types = {"gpu"};
    const std::size_t blocks = 1 + pick(6), gpus = 1 + pick(4);
    for (std::size_t i = 0; i < blocks; ++i) {
      const double stash = value(8);
      made.profile.blocks.push_back(
          {"", {{value(4), value(8)}}, value(16), stash, pick(4) == 0 ? 0 : value(6), value(4)});
    }
    const bool is_scarce = pick(2) == 0;
    for (std::size_t i = 0; i < gpus; ++i) {
      Gpu gpu{.speed = value(3), .server = i};
      if (is_scarce) gpu.memory = 8 + value(60);
      made.cluster.gpus.push_back(gpu);
    }
    for (std::size_t i = 0; i < gpus * gpus; ++i) made.cluster.bandwidth.push_back(value(8));
    made.options.overlap = pick(2) == 0;
    made.options.versions = static_cast<Versions>(pick(3));
    made.options.dispatch = static_cast<Dispatch>(pick(2));
    made.options.copies = pick(4);
    made.options.accumulate = 1 + pick(3);
    made.options.recompute = pick(4) != 0;
    made.options.microbatches = 1 + pick(12);
    return made;
  }

 private:
  std::mt19937 random_;
};

}  // namespace tally::plan::pipeline
