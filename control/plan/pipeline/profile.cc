#include "control/plan/pipeline/profile.h"

#include <fmt/format.h>

namespace tally::plan::pipeline {
namespace {

bool is_in_range(double value) {
  return value >= 0 && value <= kMaxValue;
}

Outcome check_count(std::string_view what, std::size_t count, std::size_t most,
                    std::string_view remedy) {
  if (count >= 1 && count <= most) return Unit{};
  return invalid(fmt::format("{} {}: must be 1 to {}; {}", count, what, most, remedy));
}

Outcome check_block(const Profile& profile, std::size_t index) {
  const Block& block = profile.blocks[index];
  if (block.times.size() != profile.types.size()) {
    return invalid(fmt::format("blocks[{}]: {} times; must be one for each of the {} types", index,
                               block.times.size(), profile.types.size()));
  }
  const auto refuse = [&](std::string_view what, double value) {
    return invalid(
        fmt::format("blocks[{}].{} = {}: must be 0 to {}", index, what, value, kMaxValue));
  };
  for (const Times& times : block.times) {
    if (!is_in_range(times.forward)) return refuse("forward", times.forward);
    if (!is_in_range(times.backward)) return refuse("backward", times.backward);
  }
  if (!is_in_range(block.output)) return refuse("output", block.output);
  if (!is_in_range(block.stash)) return refuse("stash", block.stash);
  if (!is_in_range(block.kept)) return refuse("kept", block.kept);
  if (!is_in_range(block.weights)) return refuse("weights", block.weights);
  return Unit{};
}

Outcome check_gpu(const Profile& profile, const Cluster& cluster, std::size_t index) {
  const Gpu& gpu = cluster.gpus[index];
  const auto refuse = [&](std::string_view what, auto value, std::string_view must) {
    return invalid(fmt::format("gpus[{}].{} = {}: must be {}", index, what, value, must));
  };
  if (gpu.type >= profile.types.size()) return refuse("type", gpu.type, "a type of the profile");
  if (!(gpu.speed >= 1e-6 && gpu.speed <= 1e6)) return refuse("speed", gpu.speed, "1e-6 to 1e6");
  if (!(gpu.memory > 0)) return refuse("memory", gpu.memory, "above 0");
  return Unit{};
}

Outcome check_bandwidth(const Cluster& cluster) {
  const std::size_t count = cluster.gpus.size();
  if (cluster.bandwidth.size() != count * count) {
    return invalid(fmt::format("bandwidth: {} entries; must be {}, one for each pair of GPUs",
                               cluster.bandwidth.size(), count * count));
  }
  for (std::size_t i = 0; i < cluster.bandwidth.size(); ++i) {
    const double value = cluster.bandwidth[i];
    if (i / count == i % count || (value >= 1e-9 && value <= kMaxValue)) continue;
    return invalid(fmt::format("bandwidth from GPU {} to GPU {} = {}: must be above 0, up to {}",
                               i / count, i % count, value, kMaxValue));
  }
  return Unit{};
}

// Whether the GPUs and blocks make stages of options.replicas GPUs each.
Outcome check_replicas(const Profile& profile, const Cluster& cluster, const Options& options) {
  if (options.replicas == 0) return Unit{};
  const std::size_t gpus = cluster.gpus.size();
  if (gpus % options.replicas != 0) {
    return invalid(fmt::format("replicas = {}: must divide the number of GPUs, which is {}",
                               options.replicas, gpus));
  }
  const std::size_t stages = gpus / options.replicas, blocks = profile.blocks.size();
  if (stages <= blocks) return Unit{};
  return invalid(
      fmt::format("replicas = {}: {} GPUs are {} stages, and the model has {} blocks; "
                  "give more replicas, or divide the model into more blocks",
                  options.replicas, gpus, stages, blocks));
}

Outcome check_options(const Options& options) {
  const auto refuse = [](std::string_view what, auto value, std::string_view must) {
    return invalid(fmt::format("{} = {}: must be {}", what, value, must));
  };
  const auto is_count = [](std::uint32_t value) { return value >= 1 && value <= kMaxMicrobatches; };
  if (!is_count(options.microbatches)) {
    return refuse("microbatches", options.microbatches, "1 to 1000000");
  }
  if (!is_count(options.accumulate)) {
    return refuse("accumulate", options.accumulate, "1 to 1000000");
  }
  if (!(options.copies >= 0 && options.copies <= 1000)) {
    return refuse("copies", options.copies, "0 to 1000");
  }
  if (!(options.gap >= 0 && options.gap <= 1)) return refuse("gap", options.gap, "0 to 1");
  return Unit{};
}

}  // namespace

Outcome check(const Profile& profile, const Cluster& cluster, const Options& options) {
  if (auto types = check_count("GPU types", profile.types.size(), kMaxTypes, "leave some out");
      !types) {
    return types;
  }
  if (auto blocks = check_count("blocks", profile.blocks.size(), kMaxBlocks, "merge some");
      !blocks) {
    return blocks;
  }
  if (auto gpus = check_count("GPUs", cluster.gpus.size(), kMaxGpus,
                              "plan for a part of them, and run several such pipelines");
      !gpus) {
    return gpus;
  }
  for (std::size_t i = 0; i < profile.blocks.size(); ++i) {
    if (auto block = check_block(profile, i); !block) return block;
  }
  for (std::size_t i = 0; i < cluster.gpus.size(); ++i) {
    if (auto gpu = check_gpu(profile, cluster, i); !gpu) return gpu;
  }
  if (auto bandwidth = check_bandwidth(cluster); !bandwidth) return bandwidth;
  if (auto replicas = check_replicas(profile, cluster, options); !replicas) return replicas;
  return check_options(options);
}

}  // namespace tally::plan::pipeline
