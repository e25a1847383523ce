// How the coordinator's jobs stand, for who looks.
#include <fmt/format.h>

#include <algorithm>

#include "control/coordinator/coordinator.h"

namespace tally::control {
namespace {

// Of by_rank: those for which nobody has come.
std::vector<std::uint32_t> absent(const std::vector<Coordinator::Ticket>& by_rank) {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < by_rank.size(); ++rank) {
    if (by_rank[rank] == 0) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace

// One version of it stands for a job: what is next and what is leaving are its change.
std::vector<Coordinator::Progress> Coordinator::progress() const {
  std::vector<Progress> list;
  for (const auto& [epoch, course] : courses_) {
    if (course.stage == Stage::kNext || course.stage == Stage::kLeaving) continue;
    const JobRecord& job = store_.jobs().at(epoch);
    const auto missing = absent(course.by_rank);
    Progress& one = list.emplace_back();
    one.name = job.name;
    one.epoch = epoch;
    one.plan_epoch = job.plan_epoch;
    one.by_file = job.made_by != nullptr && !job.made_by->closed_form;
    one.ranks = job.ranks;
    one.come = job.ranks - static_cast<std::uint32_t>(missing.size());
    for (const PlanNode& node : job.nodes) one.nodes.push_back(node.member.name);
    one.trouble = course.trouble;
    switch (course.stage) {
      case Stage::kGathering:
        one.stage = "gathering";
        one.waits_for = name_ranks(missing);
        break;
      case Stage::kPlacing:
        one.stage = "placing";
        one.waits_for = names(job, course.unconfirmed);
        break;
      case Stage::kOver:
        one.stage = "ending";
        one.waits_for = names(job, course.nodes);
        break;
      default:
        say_how_it_runs(epoch, one);
    }
  }
  return list;
}

void Coordinator::say_how_it_runs(std::uint32_t epoch, Progress& progress) const {
  const Course& course = courses_.at(epoch);
  const auto before = courses_.find(store_.jobs().at(epoch).follows);
  const bool leaves = before != courses_.end() && before->second.change.has_value();
  if (leaves) {
    progress.stage = "changing";
    progress.waits_for = waiting_for(before->first).what;
  } else if (course.next != 0 || course.wanted != Wanted::kNothing) {
    progress.stage = "changing";
    progress.waits_for = waiting_for(epoch).what;
  } else {
    progress.stage = "running";
    const auto missing = absent(course.by_rank);
    if (missing.empty()) return;
    progress.waits_for = fmt::format("{}, not heard of here", name_ranks(missing));
  }
}

}  // namespace tally::control
