// tallyctl plan: makes plans, checks them, gives them to a coordinator and shows those in force.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "control/plan/validate.h"

namespace tally::control {

// Exit status of what was understood and did not come about.
inline constexpr int kFailed = 1;

enum class PlanVerb : std::uint8_t { kCheck, kMake, kSet, kShow };

struct PlanArguments {
  PlanVerb verb = PlanVerb::kCheck;

  // Of check, and of set.
  std::string file;
  std::string bytes = "256MiB";
  double hop_us = 5;
  std::uint32_t max_height = plan::Limits{}.max_height;
  bool all = false;

  // Of make.
  std::vector<std::string> workers;  // NAME=SPEED[,sum=SPEED]
  std::vector<std::string> helpers;
  std::string machines;  // a file that has them, measured; empty: none
  std::string chunk = "256KiB";
  std::uint64_t epoch = 1;
  std::string model;  // whose tensors the plan has; empty: none
  std::string type = "f32";
  std::string split;  // empty: 1 MiB with a model, else as coordinators have it

  // Of make, and of show.
  std::string out;  // the file to write

  // Of set and show.
  std::string job;  // empty: all jobs without a plan of their own
  // Of show.
  bool in_force = false;  // rather than what the job runs by
  // Of set.
  std::string domain;  // empty: the only one, or each for the job of its name
  bool closed_form = false;
  bool now = false;  // for jobs that run, too
  std::string token;
};

// Adds the subcommand; what is given is put into `arguments` when the command line is parsed.
CLI::App* add_plan(CLI::App& app, PlanArguments& arguments);

// What the command prints, and its exit status: 0 done, 1 the plan could not be written or the
// coordinator did not answer, 2 refused or wrong usage.
struct PlanAnswer {
  int status = 0;
  std::string out;
  std::string err;
};

// Of check and make. Reads and writes the files that the arguments name; prints nothing.
PlanAnswer answer_plan(const PlanArguments& arguments, bool as_json);

}  // namespace tally::control
