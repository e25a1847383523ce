// tallyctl plan: makes and checks plans, sends them to a coordinator, and shows those in force.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "control/plan/model/served_limits.h"
#include "control/plan/model/validate.h"

namespace tally::control {

// Exit status when the command was understood but failed.
inline constexpr int kFailed = 1;

enum class PlanVerb : std::uint8_t { kCheck, kMake, kSet, kShow, kExplainHost };

struct PlanArguments {
  PlanVerb verb = PlanVerb::kCheck;

  // For check, set and explain-host.
  std::string file;
  std::string bytes = "256MiB";
  double hop_us = 5;
  std::uint32_t max_height = plan::Limits{}.max_height;
  bool all = false;

  // For make.
  std::vector<std::string> workers;  // NAME=SPEED[,sum=SPEED]
  std::vector<std::string> helpers;
  std::string machines;                        // a file with measured machines; empty: none
  std::string network;                         // a file; empty: stars for the machines above
  bool one_class = false;                      // with network: no size classes
  std::string objective = "allreduce";         // or "rs-ag"; with network
  bool any_way = false;                        // with network: results may go another way than sums
  std::size_t max_trees = plan::kServedTrees;  // with network
  std::string chunk = "256KiB";
  std::uint64_t epoch = 1;
  std::string model;  // model whose tensors the plan has; empty: none
  std::string type = "f32";
  std::string split;  // empty: 1 MiB with a model, else the coordinators' default

  // For make and show.
  std::string out;  // the file to write

  // For set and show.
  std::string job;  // empty: all jobs without a plan of their own
  // For show.
  bool in_force = false;  // show the plan in force, not the plan by which the job runs
  // For set.
  std::string domain;  // empty: the only domain, or each domain for the job of its name
  bool closed_form = false;
  bool now = false;  // also for running jobs
};

// Adds the subcommand; parsing the command line fills in `arguments`, which is borrowed.
CLI::App* add_plan(CLI::App& app, PlanArguments& arguments);

// What the command prints, and its exit status: 0 for success; 1 when the plan could not be written
// or the coordinator did not answer; 2 for a refusal or wrong usage.
struct PlanAnswer {
  int status = 0;
  std::string out;
  std::string err;
};

// Runs check, make and explain-host. Reads and writes the files that the arguments name; prints
// nothing.
PlanAnswer answer_plan(const PlanArguments& arguments, bool as_json);

}  // namespace tally::control
