// The subcommands of tallyctl plan for trainings in which not all workers sum together: pipeline
// and groups. They need no node.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "control/cli/plan/plan_command.h"
#include "control/cli/training/section_plans.h"

namespace tally::control {

struct PipelineArguments {
  std::string profile;  // files
  std::string gpus;
  std::string objective = "bottleneck";
  std::uint32_t microbatches = 8;
  bool overlap = false;
  std::string versions = "1";
  double copies = 2;
  std::uint32_t accumulate = 1;
  bool no_recompute = false;
  bool round_robin = false;
  std::uint32_t replicas = 0;  // of each stage; 0: any number
  std::size_t merge = 0;       // blocks; 0: none are merged
  std::string out;             // the file to write; empty: none
  PlanFileOptions file;
};

struct GroupsArguments {
  std::string steps;  // a file
  std::uint32_t staleness = 4;
  std::uint32_t local_steps = 1;
  std::string out;  // the file to write; empty: none
  PlanFileOptions file;
};

enum class TrainingVerb : std::uint8_t { kNone, kPipeline, kGroups };

struct TrainingArguments {
  TrainingVerb verb = TrainingVerb::kNone;  // kNone: the command line has none of them
  PipelineArguments pipeline;
  GroupsArguments groups;
};

// Adds the subcommands to `plan`; parsing the command line fills in `arguments`, which is borrowed.
void add_training(CLI::App& plan, TrainingArguments& arguments);

// The options of both subcommands about the file that they write.
void add_file_options(CLI::App& command, PlanFileOptions& options);

// Reads and writes the files that the arguments name; prints nothing. Precondition: the arguments
// have a verb.
PlanAnswer answer_training(const TrainingArguments& arguments, bool as_json);

}  // namespace tally::control
