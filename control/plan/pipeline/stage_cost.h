// The cost of a stage of a pipeline: consecutive blocks on consecutive GPUs of an order, which each
// hold a replica and share the microbatches.
//
// The model is in the spirit of PipeDream (Narayanan et al., SOSP '19) and Pipe-Torch (CCPE 2020),
// for GPUs of different speeds and links of different bandwidths. docs/pipelines.md has it. With r
// replicas of speeds s, and blocks of forward and backward times f and b:
//
//   compute = (sum of f + b, and f again of recomputed blocks) / (sum of s)
//   sync    = bytes of weights * seconds per byte, less sum of b / (least s) if it overlaps
//   time    = compute + sync / (r * accumulate)
//   memory  = weights * (copies + versions) + in_flight * (stash, or what a recomputed block keeps)
//             + the largest stash of the recomputed blocks
//
// With GPU types that have times of their own, 1 / compute is the sum of 1 / (time of one GPU).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "control/plan/pipeline/profile.h"
#include "control/plan/pipeline/recompute.h"

namespace tally::plan::pipeline {

// Blocks first_block to end_block - 1 on the GPUs at places first_gpu to end_gpu - 1 of the order.
struct StageRange {
  std::size_t first_block = 0;
  std::size_t end_block = 0;
  std::size_t first_gpu = 0;
  std::size_t end_gpu = 0;

  std::size_t replicas() const { return end_gpu - first_gpu; }
};

struct StageCost {
  // Seconds of a microbatch, with recomputed blocks. kUnlimited when the stage does not fit.
  double compute = kUnlimited;
  double sync = 0;           // seconds of each sum of gradients that no backward pass hides
  double time = kUnlimited;  // seconds of a microbatch in the steady state, with its part of sync
  double memory = 0;         // bytes of each replica
  std::vector<std::size_t> recompute;  // blocks, ascending

  bool fits() const { return time < kUnlimited; }
};

// The costs of all stages for one order of the GPUs. An object takes O(L * types + G^3) to make,
// and takes about 8 G^3 bytes. `profile` and `cluster` must outlive it.
class StageCosts {
 public:
  // `order` holds each index of cluster.gpus once. Precondition: check() accepts the arguments.
  StageCosts(const Profile& profile, const Cluster& cluster, std::vector<std::size_t> order,
             const Options& options);

  std::size_t blocks() const { return profile_.blocks.size(); }
  std::size_t gpus() const { return order_.size(); }
  const std::vector<std::size_t>& order() const { return order_; }
  const Options& options() const { return options_; }

  // Microbatches that each replica has in flight by 1F1B, if all later GPUs have later stages.
  std::size_t in_flight(const StageRange& stage) const;

  // Seconds of a microbatch without recomputation and sync: no stage with these blocks and GPUs
  // takes less. It does not fall when end_block grows. O(types).
  double least_compute(const StageRange& stage) const;

  // The stage with the least compute that fits its memory. If its time is at least `limit`, or the
  // options ask for another number of replicas, the result does not fit. A time of at most `enough`
  // seconds need not be the least. For GPUs of one type the recomputed blocks are the exact best.
  // For several types in one stage, blocks are chosen by an upper bound of their time. O(types),
  // plus recompute.h's time when blocks must be recomputed.
  StageCost cost(const StageRange& stage, double limit = kUnlimited, double enough = 0) const;

  // The stage with as little memory as `time` seconds of a microbatch allow. `before` is its cost()
  // and has at most this time. The result takes no more memory than `before`.
  StageCost least_memory(const StageRange& stage, const StageCost& before, double time) const;

  // Seconds to send the activations of a microbatch from the GPUs first_gpu to middle_gpu - 1 to
  // the GPUs up to end_gpu - 1, after block end_block - 1. Gradients come back at the same time.
  double transfer(std::size_t end_block, std::size_t first_gpu, std::size_t middle_gpu,
                  std::size_t end_gpu) const;

 private:
  // The GPUs of one type in a stage.
  struct Share {
    std::size_t type = 0;
    double speed = 0;    // sum
    double slowest = 0;  // least
  };
  struct Group {
    std::vector<Share> shares;
    double memory = kUnlimited;  // of the GPU with the least
    double sync_seconds = 0;     // to sum one byte
  };

  const Group& group(const StageRange& stage) const {
    return groups_[stage.first_gpu * (gpus() + 1) + stage.end_gpu];
  }
  Group make_group(const Cluster& cluster, std::size_t first, std::size_t end) const;
  void find_bandwidths(const Cluster& cluster);
  double compute(const StageRange& stage, std::span<const std::size_t> recomputed) const;
  double exposed_sync(const StageRange& stage) const;
  // The most that recomputation of a block adds to compute(); exact for GPUs of one type.
  double recompute_seconds(const StageRange& stage, std::size_t block) const;
  std::vector<Item> items(const StageRange& stage) const;
  double memory(const StageRange& stage, std::span<const std::size_t> recomputed) const;
  double sync_part(const StageRange& stage, double sync) const;
  StageCost with(const StageRange& stage, std::vector<std::size_t> recomputed) const;

  const Profile& profile_;
  std::vector<std::size_t> order_;
  Options options_;
  std::vector<Group> groups_;  // by first and end GPU
  // By first, middle and end GPU: the slowest pair between the two ranges.
  std::vector<double> between_;
  // Sums over the blocks before an index. Times: by type.
  std::vector<std::vector<double>> forward_and_backward_;
  std::vector<std::vector<double>> backward_;
  std::vector<double> weights_;
  std::vector<double> stash_;
};

}  // namespace tally::plan::pipeline
