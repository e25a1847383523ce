#include "control/plan/pipeline/stage_cost.h"

#include <algorithm>

namespace tally::plan::pipeline {
namespace {

template <typename Value>
std::vector<double> sums(const std::vector<Block>& blocks, Value value) {
  std::vector<double> before(blocks.size() + 1, 0);
  for (std::size_t i = 0; i < blocks.size(); ++i) before[i + 1] = before[i] + value(blocks[i]);
  return before;
}

double between(const std::vector<double>& before, const StageRange& stage) {
  return before[stage.end_block] - before[stage.first_block];
}

}  // namespace

StageCosts::StageCosts(const Profile& profile, const Cluster& cluster,
                       std::vector<std::size_t> order, const Options& options)
    : profile_(profile), order_(std::move(order)), options_(options) {
  for (std::size_t type = 0; type < profile.types.size(); ++type) {
    forward_and_backward_.push_back(sums(profile.blocks, [&](const Block& block) {
      return block.times[type].forward + block.times[type].backward;
    }));
    backward_.push_back(
        sums(profile.blocks, [&](const Block& block) { return block.times[type].backward; }));
  }
  weights_ = sums(profile.blocks, [](const Block& block) { return block.weights; });
  stash_ = sums(profile.blocks, [](const Block& block) { return block.stash; });
  groups_.resize((gpus() + 1) * (gpus() + 1));
  for (std::size_t first = 0; first < gpus(); ++first) {
    for (std::size_t end = first + 1; end <= gpus(); ++end) {
      groups_[first * (gpus() + 1) + end] = make_group(cluster, first, end);
    }
  }
  find_bandwidths(cluster);
}

StageCosts::Group StageCosts::make_group(const Cluster& cluster, std::size_t first,
                                         std::size_t end) const {
  Group made;
  double slowest_pair = kUnlimited;
  for (std::size_t i = first; i < end; ++i) {
    const Gpu& gpu = cluster.gpus[order_[i]];
    made.memory = std::min(made.memory, gpu.memory);
    auto share = std::find_if(made.shares.begin(), made.shares.end(),
                              [&](const Share& one) { return one.type == gpu.type; });
    if (share == made.shares.end()) {
      made.shares.push_back({gpu.type, 0, kUnlimited});
      share = made.shares.end() - 1;
    }
    share->speed += gpu.speed;
    share->slowest = std::min(share->slowest, gpu.speed);
    for (std::size_t other = first; other < i; ++other) {
      slowest_pair = std::min(slowest_pair, cluster.between(order_[other], order_[i]));
    }
  }
  const std::size_t replicas = end - first;
  if (replicas < 2) return made;
  if (options_.sync_time) {
    made.sync_seconds = options_.sync_time(std::span(order_).subspan(first, replicas));
  } else {
    const auto r = static_cast<double>(replicas);
    made.sync_seconds = 2 * (r - 1) / (r * slowest_pair);
  }
  return made;
}

void StageCosts::find_bandwidths(const Cluster& cluster) {
  const std::size_t side = gpus() + 1;
  between_.assign(side * side * side, kUnlimited);
  for (std::size_t first = gpus(); first-- > 0;) {
    for (std::size_t middle = first + 1; middle < gpus(); ++middle) {
      double slowest = kUnlimited;  // from `first` alone
      for (std::size_t end = middle + 1; end <= gpus(); ++end) {
        slowest = std::min(slowest, cluster.between(order_[first], order_[end - 1]));
        const double others =
            first + 1 < middle ? between_[((first + 1) * side + middle) * side + end] : kUnlimited;
        between_[(first * side + middle) * side + end] = std::min(slowest, others);
      }
    }
  }
}

std::size_t StageCosts::in_flight(const StageRange& stage) const {
  const std::size_t replicas = stage.replicas();
  return (gpus() - stage.first_gpu + replicas - 1) / replicas;
}

double StageCosts::compute(const StageRange& stage, std::span<const std::size_t> recomputed) const {
  const bool is_weighted = options_.dispatch == Dispatch::kWeighted;
  const std::vector<Share>& shares = group(stage).shares;
  double rate = 0, slowest = 0;
  for (const Share& share : shares) {
    double seconds = between(forward_and_backward_[share.type], stage);
    for (const std::size_t block : recomputed) {
      seconds += profile_.blocks[block].times[share.type].forward;
    }
    if (is_weighted && shares.size() == 1) return seconds / share.speed;
    if (is_weighted && seconds <= 0) return 0;
    rate += share.speed / seconds;
    slowest = std::max(slowest, seconds / share.slowest);
  }
  return is_weighted ? 1 / rate : slowest / static_cast<double>(stage.replicas());
}

double StageCosts::least_compute(const StageRange& stage) const {
  return compute(stage, {});
}

double StageCosts::exposed_sync(const StageRange& stage) const {
  const Group& own = group(stage);
  const double sync = own.sync_seconds * between(weights_, stage);
  if (!options_.overlap) return sync;
  double hidden = 0;
  for (const Share& share : own.shares) {
    hidden = std::max(hidden, between(backward_[share.type], stage) / share.slowest);
  }
  return std::max(0.0, sync - hidden);
}

double StageCosts::recompute_seconds(const StageRange& stage, std::size_t block) const {
  const auto& times = profile_.blocks[block].times;
  const std::vector<Share>& shares = group(stage).shares;
  if (options_.dispatch == Dispatch::kRoundRobin) {
    double most = 0;
    for (const Share& share : shares) {
      most = std::max(most, times[share.type].forward / share.slowest);
    }
    return most / static_cast<double>(stage.replicas());
  }
  if (shares.size() == 1) return times[shares[0].type].forward / shares[0].speed;
  // compute() is a concave function of the types' times, so its tangent is above it.
  const double whole = compute(stage, {});
  double most = 0;
  for (const Share& share : shares) {
    const double seconds = between(forward_and_backward_[share.type], stage);
    if (seconds <= 0) return kUnlimited;
    const double slope = whole / seconds * whole / seconds * share.speed;
    most += slope * times[share.type].forward;
  }
  return most;
}

double StageCosts::memory(const StageRange& stage, std::span<const std::size_t> recomputed) const {
  const auto flying = static_cast<double>(in_flight(stage));
  const double versions = options_.versions == Versions::kOne   ? 1
                          : options_.versions == Versions::kTwo ? 2
                                                                : flying;
  double bytes = between(weights_, stage) * (options_.copies + versions);
  bytes += flying * between(stash_, stage);
  double peak = 0;
  for (const std::size_t block : recomputed) {
    bytes -= flying * (profile_.blocks[block].stash - profile_.blocks[block].kept);
    peak = std::max(peak, profile_.blocks[block].stash);
  }
  return bytes + peak;
}

std::vector<Item> StageCosts::items(const StageRange& stage) const {
  const auto flying = static_cast<double>(in_flight(stage));
  std::vector<Item> found;
  for (std::size_t i = stage.first_block; i < stage.end_block; ++i) {
    const Block& block = profile_.blocks[i];
    found.push_back(
        {recompute_seconds(stage, i), flying * (block.stash - block.kept), block.stash});
  }
  return found;
}

double StageCosts::sync_part(const StageRange& stage, double sync) const {
  // An iteration has one sum of gradients, which its formula adds to the time of the stages.
  if (options_.objective == Objective::kIteration) return 0;
  return sync / (static_cast<double>(stage.replicas()) * options_.accumulate);
}

StageCost StageCosts::with(const StageRange& stage, std::vector<std::size_t> recomputed) const {
  StageCost cost;
  cost.compute = compute(stage, recomputed);
  cost.sync = exposed_sync(stage);
  cost.time = cost.compute + sync_part(stage, cost.sync);
  cost.memory = memory(stage, recomputed);
  cost.recompute = std::move(recomputed);
  return cost;
}

StageCost StageCosts::cost(const StageRange& stage, double limit, double enough) const {
  if (options_.replicas != 0 && stage.replicas() != options_.replicas) return {};
  const double capacity = group(stage).memory;
  StageCost whole = with(stage, {});
  if (whole.memory <= capacity && whole.time < limit) return whole;
  StageCost none;
  none.memory = whole.memory;
  if (whole.time >= limit || !options_.recompute) return none;
  // The items' seconds are exact for one type alone. Otherwise a limit of their sum could refuse a
  // stage that is fast enough.
  const bool is_exact = group(stage).shares.size() == 1;
  const double left = is_exact ? limit - whole.time : kUnlimited;
  const auto choice = least_time(items(stage), whole.memory - capacity, left, enough - whole.time);
  if (!choice) return none;
  std::vector<std::size_t> recomputed = choice->items;
  for (std::size_t& block : recomputed) block += stage.first_block;
  StageCost cost = with(stage, std::move(recomputed));
  return cost.time < limit ? cost : none;
}

StageCost StageCosts::least_memory(const StageRange& stage, const StageCost& before,
                                   double time) const {
  if (!options_.recompute) return before;
  const StageCost whole = with(stage, {});
  const Choice choice = most_saved(items(stage), time - whole.time);
  std::vector<std::size_t> recomputed = choice.items;
  for (std::size_t& block : recomputed) block += stage.first_block;
  StageCost cost = with(stage, std::move(recomputed));
  return cost.memory < before.memory && cost.time <= time ? cost : before;
}

double StageCosts::transfer(std::size_t end_block, std::size_t first_gpu, std::size_t middle_gpu,
                            std::size_t end_gpu) const {
  const std::size_t side = gpus() + 1;
  const double speed = between_[(first_gpu * side + middle_gpu) * side + end_gpu];
  const std::size_t pairs = std::min(middle_gpu - first_gpu, end_gpu - middle_gpu);
  return profile_.blocks[end_block - 1].output / (static_cast<double>(pairs) * speed);
}

}  // namespace tally::plan::pipeline
