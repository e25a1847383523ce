#include "control/plan/pipeline/partition.h"

#include <algorithm>

namespace tally::plan::pipeline {
namespace {

// The best division of blocks i to L - 1 over GPUs q to G - 1, if its first stage has the GPUs q to
// p - 1, for all i, q and p.
class BottleneckSearch {
 public:
  BottleneckSearch(const StageCosts& costs, double limit)
      : costs_(costs),
        limit_(limit),
        blocks_(costs.blocks()),
        gpus_(costs.gpus()),
        states_(blocks_ * (gpus_ + 1) * (gpus_ + 1)) {}

  std::optional<std::vector<Cut>> run() {
    for (std::size_t first = gpus_; first-- > 0;) {
      for (std::size_t end = first + 1; end <= gpus_; ++end) solve(first, end);
    }
    std::size_t best = 0;
    for (std::size_t end = 1; end <= gpus_; ++end) {
      if (state(0, 0, end).time < (best == 0 ? limit_ : state(0, 0, best).time)) best = end;
    }
    if (best == 0) return std::nullopt;
    return cuts(best);
  }

 private:
  struct State {
    double time = kUnlimited;
    Cut next{};  // the end of the first stage's blocks, and of the next stage's GPUs
  };

  State& state(std::size_t block, std::size_t first, std::size_t end) {
    return states_[(block * (gpus_ + 1) + first) * (gpus_ + 1) + end];
  }

  // All states whose first stage has these GPUs.
  void solve(std::size_t first, std::size_t end) {
    const std::size_t lowest = first == 0 ? 0 : 1;
    const std::size_t above = first == 0 ? 1 : blocks_;
    for (std::size_t block = lowest; block < above; ++block) {
      State& own = state(block, first, end);
      own.time = limit_;
      if (end == gpus_) {
        own = {costs_.cost({block, blocks_, first, end}, limit_).time, {blocks_, gpus_}};
      } else {
        for (std::size_t cut = block + 1; cut < blocks_; ++cut) {
          if (!try_cut({block, cut, first, end}, own)) break;
        }
      }
    }
  }

  // Returns false when no later cut can be better.
  bool try_cut(const StageRange& stage, State& own) {
    if (costs_.least_compute(stage) >= own.time) return false;
    double rest = own.time;
    std::size_t next = 0;
    for (std::size_t end = stage.end_gpu + 1; end <= gpus_; ++end) {
      const double after = state(stage.end_block, stage.end_gpu, end).time;
      if (after >= rest) continue;
      const double sent = costs_.transfer(stage.end_block, stage.first_gpu, stage.end_gpu, end);
      if (std::max(after, sent) >= rest) continue;
      rest = std::max(after, sent);
      next = end;
    }
    if (next == 0) return true;
    const double time = costs_.cost(stage, own.time, rest).time;
    if (time < own.time) own = {std::max(time, rest), {stage.end_block, next}};
    return true;
  }

  std::vector<Cut> cuts(std::size_t end) {
    std::vector<Cut> found;
    std::size_t block = 0, first = 0;
    for (;;) {
      const Cut next = state(block, first, end).next;
      found.push_back({next.end_block, end});
      if (end == gpus_) return found;
      block = next.end_block;
      first = end;
      end = next.end_gpu;
    }
  }

  const StageCosts& costs_;
  const double limit_;
  const std::size_t blocks_;
  const std::size_t gpus_;
  std::vector<State> states_;
};

void set_cost(Stage& stage, StageCost cost) {
  stage.recompute = std::move(cost.recompute);
  stage.compute = cost.compute;
  stage.sync = cost.sync;
  stage.time = cost.time;
  stage.memory = cost.memory;
}

}  // namespace

std::optional<std::vector<Cut>> least_bottleneck(const StageCosts& costs, double limit) {
  return BottleneckSearch(costs, limit).run();
}

std::optional<Partition> evaluate(const StageCosts& costs, const std::vector<Cut>& cuts) {
  Partition partition;
  partition.order = costs.order();
  StageRange range;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    range.end_block = cuts[i].end_block;
    range.end_gpu = cuts[i].end_gpu;
    StageCost cost = costs.cost(range);
    if (!cost.fits()) return std::nullopt;
    Stage stage;
    stage.first_block = range.first_block;
    stage.end_block = range.end_block;
    stage.gpus.assign(costs.order().begin() + static_cast<std::ptrdiff_t>(range.first_gpu),
                      costs.order().begin() + static_cast<std::ptrdiff_t>(range.end_gpu));
    stage.in_flight = costs.in_flight(range);
    set_cost(stage, std::move(cost));
    if (i + 1 < cuts.size()) {
      stage.transfer =
          costs.transfer(range.end_block, range.first_gpu, range.end_gpu, cuts[i + 1].end_gpu);
    }
    partition.bottleneck = std::max({partition.bottleneck, stage.time, stage.transfer});
    partition.stages.push_back(std::move(stage));
    range.first_block = range.end_block;
    range.first_gpu = range.end_gpu;
  }
  partition.iteration = iteration_time(partition.stages, costs.options().microbatches);
  return partition;
}

void balance_memory(const StageCosts& costs, Partition& partition) {
  if (costs.options().objective != Objective::kBottleneck) return;
  std::size_t first_gpu = 0;
  for (Stage& stage : partition.stages) {
    const StageRange range{stage.first_block, stage.end_block, first_gpu,
                           first_gpu + stage.gpus.size()};
    first_gpu = range.end_gpu;
    const StageCost before{stage.compute, stage.sync, stage.time, stage.memory, stage.recompute};
    set_cost(stage, costs.least_memory(range, before, partition.bottleneck));
  }
  partition.iteration = iteration_time(partition.stages, costs.options().microbatches);
}

double iteration_time(const std::vector<Stage>& stages, std::uint32_t microbatches) {
  double sum = 0, slowest = 0, sync = 0;
  for (const Stage& stage : stages) {
    sum += stage.compute + stage.transfer;
    slowest = std::max({slowest, stage.compute, stage.transfer});
    sync = std::max(sync, stage.sync);
  }
  return sum + (static_cast<double>(microbatches) - 1) * slowest + sync;
}

}  // namespace tally::plan::pipeline
