// The files of the pipeline and group planners: refused with a reason, or understood; then what is
// written of them reads as the same, and a small problem has a plan or a reason why not.
#include <cmath>
#include <string>

#include "control/plan/groups/planner.h"
#include "control/plan/json/groups_json.h"
#include "control/plan/json/pipeline_json.h"
#include "control/plan/pipeline/planner.h"
#include "tests/fuzz/input.h"

namespace {

using namespace tally::plan;
using tally::fuzz::require;

// Planning takes longer for larger problems than a fuzzer should wait.
constexpr std::size_t kBlocks = 8;
constexpr std::size_t kGpus = 4;
constexpr std::size_t kWorkers = 6;

void try_profile(std::string_view text) {
  const auto file = read_profile(text);
  if (!file) return require(!file.error().message.empty(), "a refusal says why");
  const std::string written = write_profile(*file);
  const auto again = read_profile(written);
  require(again.ok(), "what is written is a profile");
  require(write_profile(*again) == written, "and the same one");
  pipeline::Cluster cluster;
  for (std::size_t i = 0; i < 2; ++i) cluster.gpus.push_back({.memory = 1e9, .server = i});
  cluster.bandwidth.assign(4, 1e9);
  const auto plan = pipeline::plan_pipeline(pipeline::merge_blocks(file->profile, kBlocks), cluster,
                                            {.overlap = true});
  require(plan.ok() || !plan.error().message.empty(), "a refusal says why");
  if (plan) require(std::isfinite(plan->partition.bottleneck), "a time is finite");
}

void try_gpus(std::string_view text) {
  const auto file = read_gpus(text);
  if (!file) return require(!file.error().message.empty(), "a refusal says why");
  const std::string written = write_gpus(*file);
  const auto again = read_gpus(written);
  require(again.ok(), "what is written is a file of GPUs");
  require(write_gpus(*again) == written, "and the same one");
  pipeline::Profile profile{{file->servers[0].gpus[0].type}, {}};
  profile.blocks.assign(3, {.times = {{1, 2}}, .output = 1e6, .stash = 1e9, .weights = 1e6});
  const auto cluster = cluster_of(*file, profile);
  if (!cluster) return require(!cluster.error().message.empty(), "a refusal says why");
  if (cluster->gpus.size() > kGpus) return;
  const auto plan = pipeline::plan_pipeline(profile, *cluster, {});
  require(plan.ok() || !plan.error().message.empty(), "a refusal says why");
  if (plan) require(std::isfinite(plan->partition.bottleneck), "a time is finite");
}

void try_steps(std::string_view text) {
  const auto file = read_steps(text);
  if (!file) return require(!file.error().message.empty(), "a refusal says why");
  const std::string written = write_steps(*file);
  const auto again = read_steps(written);
  require(again.ok(), "what is written is a file of steps");
  require(write_steps(*again) == written, "and the same one");
  if (file->problem.workers.size() > kWorkers) return;
  const auto plan = groups::plan_groups(file->problem, {.staleness = 4, .local_steps = 2});
  require(plan.ok(), "what is read can be planned");
  require(std::isfinite(plan->throughput), "a throughput is finite");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::string_view text(reinterpret_cast<const char*>(data), bytes);
  try_profile(text);
  try_gpus(text);
  try_steps(text);
  return 0;
}
