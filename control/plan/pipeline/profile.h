// What the pipeline planner plans for: the blocks of a model, and the GPUs that run them. These are
// plain values without I/O, threads or clocks. pipeline_json.h reads them from files.
//
// Units: seconds, bytes, bytes per second. All figures of a block are those of one microbatch,
// except its weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace tally::plan::pipeline {

inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();
inline constexpr std::size_t kMaxBlocks = 256;
inline constexpr std::size_t kMaxGpus = 64;
inline constexpr std::size_t kMaxTypes = 16;
inline constexpr std::uint32_t kMaxMicrobatches = 1'000'000;
inline constexpr double kMaxValue = 1e18;  // of every other number, so that sums stay finite

struct Times {
  double forward = 0;
  double backward = 0;
};

// A part of the model between two places at which a single tensor crosses. A model is a chain of
// blocks.
struct Block {
  std::string name;
  std::vector<Times> times;  // on a GPU of speed 1, by type: one entry for each type of the profile
  double output = 0;         // sent to the next block; its gradient has as many bytes
  double stash = 0;          // kept from the forward to the backward pass
  double kept = 0;           // kept instead, if the block is recomputed: its input
  double weights = 0;
};

struct Profile {
  std::vector<std::string> types;  // names of the GPU types for which blocks have times
  std::vector<Block> blocks;
};

struct Gpu {
  std::string name;
  std::size_t type = 0;        // index in Profile::types
  double speed = 1;            // 2: half of the profile's times
  double memory = kUnlimited;  // for weights, their copies, and stashes
  std::size_t server = 0;      // GPUs of a server stay together in every order
};

struct Cluster {
  std::vector<Gpu> gpus;
  // From GPU u to GPU v: entry u * gpus.size() + v. The diagonal does not count.
  std::vector<double> bandwidth;

  // The slower direction of two GPUs, because activations go one way and gradients the other.
  double between(std::size_t u, std::size_t v) const {
    const double there = bandwidth[u * gpus.size() + v], back = bandwidth[v * gpus.size() + u];
    return there < back ? there : back;
  }
};

// How many versions of its weights a stage keeps. kOne: synchronous 1F1B. kTwo: PipeDream-2BW.
// kPerMicrobatch: as many as microbatches in flight (PipeDream's weight stashing).
enum class Versions : std::uint8_t { kOne, kTwo, kPerMicrobatch };

// How microbatches go to the replicas of a stage. kWeighted: in proportion to their speeds.
// kRoundRobin: to each in turn, so the slowest replica sets the pace.
enum class Dispatch : std::uint8_t { kWeighted, kRoundRobin };

// kBottleneck: the least time of a microbatch in the steady state. kIteration: the least time of a
// synchronous iteration, which fills and drains the pipeline.
enum class Objective : std::uint8_t { kBottleneck, kIteration };

// Returns the seconds to sum a byte of gradients over these GPUs (indices in Cluster::gpus). It has
// at least two GPUs, and must be a pure function.
using SyncTime = std::function<double(std::span<const std::size_t> gpus)>;

struct Options {
  Objective objective = Objective::kBottleneck;
  std::uint32_t microbatches = 1;  // of an iteration
  bool overlap = false;            // whether gradients are summed during the backward pass
  Versions versions = Versions::kOne;
  // Copies of the weights besides their versions: one of the gradient, and the optimizer's. SGD has
  // 1, with momentum 2, and Adam has 3.
  double copies = 2;
  // Microbatches that each replica adds up before gradients are summed.
  std::uint32_t accumulate = 1;
  bool recompute = true;  // whether a stage may recompute blocks to save memory
  // Of each stage; 0: stages may have different numbers. Schedules in which each rank sends to one
  // rank of the next stage need equal numbers.
  std::uint32_t replicas = 0;
  Dispatch dispatch = Dispatch::kWeighted;
  SyncTime sync_time;  // empty: a ring over the slowest pair, 2 (r - 1) / (r * bandwidth)
  // For kIteration: the result takes at most 1 + gap times the least iteration time. 0: exact.
  double gap = 1e-3;
};

// Checks counts, indices and ranges. Everything else in this folder has this as its precondition.
// An error names the place, the value and what it must be.
Outcome check(const Profile& profile, const Cluster& cluster, const Options& options);

}  // namespace tally::plan::pipeline
