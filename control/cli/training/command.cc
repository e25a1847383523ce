#include "control/cli/training/command.h"

#include <fmt/format.h>

#include "control/cli/training/groups_command.h"
#include "control/cli/training/pipeline_command.h"

namespace tally::control {
namespace {

constexpr std::size_t kLongestPrefix = 128;  // bytes

}  // namespace

void add_training(CLI::App& plan, TrainingArguments& arguments) {
  add_pipeline(plan, arguments);
  add_groups(plan, arguments);
}

void add_file_options(CLI::App& command, PlanFileOptions& options) {
  command.add_option("--epoch", options.epoch, "the plan's epoch")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 53))
      ->capture_default_str();
  command
      .add_option("--job-prefix", options.job_prefix,
                  "the names of the plan's domains begin with it, because a domain is for the job "
                  "of its name; torch- for jobs of PyTorch")
      ->check(CLI::Validator(
          [](const std::string& prefix) {
            if (prefix.size() <= kLongestPrefix) return std::string();
            return fmt::format("must have at most {} bytes", kLongestPrefix);
          },
          ""))
      ->type_name("TEXT");
}

PlanAnswer answer_training(const TrainingArguments& arguments, bool as_json) {
  return arguments.verb == TrainingVerb::kPipeline ? answer_pipeline(arguments.pipeline, as_json)
                                                   : answer_groups(arguments.groups, as_json);
}

}  // namespace tally::control
