#include "control/cli/training/pipeline_command.h"

#include <fmt/format.h>

#include "control/cli/common/flags.h"
#include "control/cli/common/tables.h"
#include "control/cli/plan/plan_files.h"
#include "control/cli/training/pipeline_report.h"
#include "control/cli/training/section_plans.h"
#include "control/plan/json/plan_json.h"

namespace tally::control {
namespace {

// Messages have names from files.
PlanAnswer refuse_pipeline(int status, const std::string& message) {
  return {status, "", fmt::format("tallyctl: {}\n", format_value(message, Format::kText))};
}

struct PipelineInput {
  plan::ProfileFile profile;
  plan::GpuFile gpus;
  plan::pipeline::Cluster cluster;
};

Result<PipelineInput> read_input(const PipelineArguments& arguments) {
  const auto named = [](const std::string& path, const Error& error) {
    return Error{error.status, fmt::format("{}: {}", path, error.message)};
  };
  const auto profile_text = read_file(arguments.profile, "a profile of a model");
  if (!profile_text) return profile_text.error();
  auto profile = plan::read_profile(*profile_text);
  if (!profile) return named(arguments.profile, profile.error());
  const auto gpus_text = read_file(arguments.gpus, "a file of GPUs");
  if (!gpus_text) return gpus_text.error();
  auto gpus = plan::read_gpus(*gpus_text);
  if (!gpus) return named(arguments.gpus, gpus.error());
  auto cluster = plan::cluster_of(*gpus, profile->profile);
  if (!cluster) return named(arguments.gpus, cluster.error());
  if (arguments.merge > 0) {
    profile->profile = plan::pipeline::merge_blocks(profile->profile, arguments.merge);
  }
  PipelineInput input;
  input.profile = std::move(profile).value();
  input.gpus = std::move(gpus).value();
  input.cluster = std::move(cluster).value();
  return input;
}

plan::pipeline::Options pipeline_options(const PipelineArguments& arguments) {
  using namespace plan::pipeline;
  Options options;
  options.objective =
      arguments.objective == "iteration" ? Objective::kIteration : Objective::kBottleneck;
  options.microbatches = arguments.microbatches;
  options.overlap = arguments.overlap;
  options.versions = arguments.versions == "1"   ? Versions::kOne
                     : arguments.versions == "2" ? Versions::kTwo
                                                 : Versions::kPerMicrobatch;
  options.copies = arguments.copies;
  options.accumulate = arguments.accumulate;
  options.recompute = !arguments.no_recompute;
  options.replicas = arguments.replicas;
  options.dispatch = arguments.round_robin ? Dispatch::kRoundRobin : Dispatch::kWeighted;
  return options;
}

void add_cost_options(CLI::App& command, PipelineArguments& arguments) {
  command
      .add_option("--objective", arguments.objective,
                  "bottleneck: the least time of a microbatch in the steady state; iteration: the "
                  "least time of a synchronous iteration (1F1B)")
      ->check(CLI::IsMember({"bottleneck", "iteration"}))
      ->capture_default_str();
  command.add_option("--microbatches", arguments.microbatches, "of an iteration")
      ->check(CLI::Range(1u, plan::pipeline::kMaxMicrobatches))
      ->capture_default_str();
  command.add_flag("--overlap", arguments.overlap,
                   "gradients are summed during the backward pass, as DDP does");
  command
      .add_option("--versions", arguments.versions,
                  "of the weights that a stage keeps: 1 (synchronous), 2 (2BW), or all: one for "
                  "each microbatch in flight (asynchronous)")
      ->check(CLI::IsMember({"1", "2", "all"}))
      ->capture_default_str();
  command
      .add_option("--copies", arguments.copies,
                  "of the weights besides their versions: the gradient and the optimizer's state "
                  "(SGD 1, with momentum 2, Adam 3)")
      ->check(number_in(0, 1000))
      ->capture_default_str();
  command
      .add_option("--accumulate", arguments.accumulate,
                  "microbatches that a replica adds up before gradients are summed")
      ->check(CLI::Range(1u, plan::pipeline::kMaxMicrobatches))
      ->capture_default_str();
  command.add_flag("--no-recompute", arguments.no_recompute,
                   "no stage recomputes blocks to save memory");
  command.add_flag("--round-robin", arguments.round_robin,
                   "replicas of a stage get microbatches in turn, whatever their speeds are");
  command
      .add_option("--replicas", arguments.replicas,
                  "of each stage; left out: stages may have different numbers of replicas")
      ->check(CLI::Range(1u, static_cast<unsigned>(plan::pipeline::kMaxGpus)))
      ->type_name("N");
}

}  // namespace

void add_pipeline(CLI::App& plan, TrainingArguments& arguments) {
  PipelineArguments& own = arguments.pipeline;
  auto* command = plan.add_subcommand(
      "pipeline",
      "divides a model into pipeline stages with replicas, on GPUs and links that may differ");
  command->add_option("--profile", own.profile, "times and bytes of the model's blocks, in JSON")
      ->required()
      ->type_name("FILE");
  command->add_option("--gpus", own.gpus, "the servers, their GPUs and links, in JSON")
      ->required()
      ->type_name("FILE");
  add_cost_options(*command, own);
  command
      ->add_option("--merge-blocks", own.merge,
                   "merges the shortest neighbours until there are at most so many blocks; stages "
                   "of the plan count merged blocks")
      ->check(CLI::Range(std::size_t{1}, plan::pipeline::kMaxBlocks))
      ->type_name("N");
  command
      ->add_option("--out", own.out,
                   "writes a plan with a domain, and so a job, for the replicas of each stage")
      ->type_name("FILE");
  add_file_options(*command, own.file);
  command->footer(
      "docs/pipelines.md has the keys of the files and the cost model. Exit status: 0 planned, 1 "
      "the\n"
      "plan could not be written, 2 a file or an option is refused (stderr says why), or nothing "
      "fits "
      "the\nmemory of the GPUs.");
  command->parse_complete_callback([&arguments] { arguments.verb = TrainingVerb::kPipeline; });
}

PlanAnswer answer_pipeline(const PipelineArguments& arguments, bool as_json) {
  const auto separate = check_output(
      "--out", arguments.out, {{"--profile", arguments.profile}, {"--gpus", arguments.gpus}});
  if (!separate) return refuse_pipeline(2, separate.error().message);
  const auto input = read_input(arguments);
  if (!input) return refuse_pipeline(2, input.error().message);
  const plan::pipeline::Options options = pipeline_options(arguments);
  const auto planned =
      plan::pipeline::plan_pipeline(input->profile.profile, input->cluster, options);
  if (!planned) {
    return refuse_pipeline(2, fmt::format("plan pipeline: {}", planned.error().message));
  }
  if (!arguments.out.empty()) {
    const auto file =
        pipeline_plan(input->gpus, input->cluster, planned->partition, arguments.file);
    if (!file) return refuse_pipeline(2, fmt::format("plan pipeline: {}", file.error().message));
    if (const auto written = write_out(arguments.out, plan::write_plan(*file)); !written) {
      return refuse_pipeline(kFailed, written.error().message);
    }
  }
  const nlohmann::json report =
      pipeline_report(input->profile, input->cluster, options, *planned, arguments.file.job_prefix);
  if (!as_json) return {0, render_pipeline_report(report), ""};
  return {0, report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n", ""};
}

}  // namespace tally::control
