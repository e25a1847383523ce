#include "control/coordinator/state/jobs/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/coordinator/state/jobs/job_repairs.h"
#include "control/coordinator/state/plans.h"

namespace tally::control {
namespace {

DrainingJob waiting_for(const JobTable& jobs, std::uint32_t epoch) {
  const JobState& state = *jobs.find(epoch);
  DrainingJob waiting{jobs.record(epoch)->name, "", false};
  if (state.repair) {
    waiting.what = delay_of_repair(jobs, epoch).why;
  } else if (state.change) {
    static constexpr const char* kWhat[] = {"make ready for its new plan", "know of its new plan",
                                            "end what goes by its old plan",
                                            "close their sessions of its old plan"};
    const auto stage = static_cast<std::size_t>(state.change->stage());
    waiting.what = fmt::format("waits for {} to {}", name_ranks(state.change->waits_for()),
                               kWhat[std::min<std::size_t>(stage, 3)]);
  } else if (state.next != 0) {
    waiting.what =
        fmt::format("waits for {} to take its new trees",
                    name_nodes(*jobs.record(state.next), jobs.find(state.next)->unconfirmed));
  } else if (!state.trouble.empty()) {
    waiting.what = state.trouble;
    waiting.gave_up = state.wanted == Wanted::kNothing;
  } else if (const auto absent = jobs.ranks_not_listening(state);
             state.stage == JobStage::kRunning && !absent.empty()) {
    waiting.what = fmt::format(
        "{} cannot be told of a new plan: of an older release, or without a "
        "connection to the coordinator; end the job, or wait until it ends",
        name_ranks(absent));
  } else {
    waiting.what = "is about to change";
  }
  return waiting;
}

void describe_running(const JobTable& jobs, std::uint32_t epoch, JobProgress& progress) {
  const JobState& state = *jobs.find(epoch);
  const std::uint32_t before = jobs.record(epoch)->follows;
  const JobState* leaving = jobs.find(before);
  progress.stage = "changing";
  if (leaving != nullptr && leaving->change.has_value()) {
    progress.waits_for = waiting_for(jobs, before).what;
  } else if (state.next != 0 || state.wanted != Wanted::kNothing) {
    progress.waits_for = waiting_for(jobs, epoch).what;
  } else {
    progress.stage = "running";
    const auto missing = state.missing_ranks();
    if (missing.empty()) return;
    progress.waits_for = fmt::format("{}, not connected to this coordinator", name_ranks(missing));
  }
}

}  // namespace

std::vector<JobProgress> progress_of(const JobTable& jobs) {
  std::vector<JobProgress> list;
  for (const auto& [epoch, state] : jobs.states()) {
    if (state.stage == JobStage::kNext || state.stage == JobStage::kLeaving) continue;
    const JobRecord& job = *jobs.record(epoch);
    const auto missing = state.missing_ranks();
    JobProgress& one = list.emplace_back();
    one.name = job.name;
    one.epoch = epoch;
    one.plan_epoch = job.plan_epoch;
    if (job.made_by != nullptr) one.source = job.made_by->source;
    one.ranks = job.ranks;
    one.come = job.ranks - static_cast<std::uint32_t>(missing.size() + state.absent.size());
    one.left_out = state.absent;
    for (const PlanNode& node : job.nodes) one.nodes.push_back(node.member.name);
    one.trouble = state.trouble;
    switch (state.stage) {
      case JobStage::kGathering:
        one.stage = "gathering";
        one.waits_for = name_ranks(missing);
        break;
      case JobStage::kPlacing:
        one.stage = "placing";
        one.waits_for = name_nodes(job, state.unconfirmed);
        break;
      case JobStage::kRepairing:
        one.stage = "repairing";
        one.waits_for = delay_of_repair(jobs, epoch).why;
        one.trouble = state.repair->why;
        break;
      case JobStage::kOver:
        one.stage = "ending";
        one.waits_for = name_nodes(job, state.nodes);
        break;
      default:
        describe_running(jobs, epoch, one);
    }
  }
  return list;
}

std::vector<DrainingJob> jobs_at(const JobTable& jobs, NodeId node) {
  std::set<std::uint32_t> epochs;
  for (const auto& [epoch, state] : jobs.states()) {
    if (state.stage == JobStage::kOver || !state.nodes.contains(node)) continue;
    epochs.insert(state.stage == JobStage::kNext ? jobs.record(epoch)->follows : epoch);
  }
  std::vector<DrainingJob> list;
  for (const std::uint32_t epoch : epochs) list.push_back(waiting_for(jobs, epoch));
  return list;
}

}  // namespace tally::control
