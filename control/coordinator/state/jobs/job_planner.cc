#include "control/coordinator/state/jobs/job_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "control/coordinator/layout/closed_form.h"
#include "control/coordinator/layout/left_out.h"

namespace tally::control {
namespace {

bool same(const std::vector<PlanNode>& one, const std::vector<PlanNode>& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](const PlanNode& a, const PlanNode& b) {
                      return a.node == b.node && a.trees == b.trees && a.rails == b.rails &&
                             a.vertices == b.vertices && a.below == b.below && a.above == b.above &&
                             a.stands_in_for == b.stands_in_for;
                    });
}

}  // namespace

JobPlanner::Plan JobPlanner::in_force(const std::string& job) const {
  if (auto plan = plans_.find(job)) return plan;
  if (auto plan = racks_.plan()) return plan;
  return closed_form();
}

bool JobPlanner::needs_all_ranks(const std::string& job) const {
  const Plan set = plans_.find(job);
  return set != nullptr ? asks_for_hosts(set->machines) : racks_.needs_hosts();
}

Result<JobRecord> JobPlanner::place(JobRecord job, const std::vector<std::string>& hosts) const {
  auto chosen = lay_out_first(choices(plans_.find(job.name), nullptr), job, hosts, {});
  if (!chosen) return chosen.error();
  give_plan(job, std::move(chosen).value());
  return job;
}

Result<JobRecord> JobPlanner::next_version(const JobRecord& job, Wanted wanted,
                                           const std::vector<std::string>& hosts,
                                           const RankNumbers& left_out) const {
  const Plan set = wanted == Wanted::kOwnPlan ? operators_plan(job) : plans_.find(job.name);
  auto chosen = lay_out_first(choices(set, job.made_by), job, hosts, left_out);
  if (!chosen) return chosen.error();
  const Layout& layout = chosen->layout;
  if (left_out == job.left_out && layout.plan == job.plan && layout.buffers == job.buffers &&
      same(layout.nodes, job.nodes)) {
    JobRecord same = job;
    note_plan(same, chosen->plan);
    return same;
  }
  return follow(job, std::move(chosen).value(), left_out);
}

Result<JobRecord> JobPlanner::repaired(const JobRecord& job, const std::vector<std::string>& hosts,
                                       const RankNumbers& left_out) const {
  auto chosen = lay_out_first(choices(operators_plan(job), job.made_by), job, hosts, left_out);
  if (!chosen) return chosen.error();
  return follow(job, std::move(chosen).value(), left_out);
}

JobRecord JobPlanner::follow(const JobRecord& job, Chosen chosen,
                             const RankNumbers& left_out) const {
  JobRecord next = job;
  next.follows = job.epoch;
  next.left_out = left_out;
  next.runs = false;
  next.epoch = store_.next_epoch();
  give_plan(next, std::move(chosen));
  return next;
}

JobPlanner::Plan JobPlanner::operators_plan(const JobRecord& job) {
  return job.made_by->source == PlanSource::kFile ? job.made_by : nullptr;
}

// The plans that a job may have, the best first. An operator's plan stands alone. Otherwise the
// job has trees for racks: those for the present members, or, until these are made and where they
// do not fit its ranks, the ones that it has (`before`), with substitutes. Stars (nullptr) fit
// always.
std::vector<JobPlanner::Plan> JobPlanner::choices(const Plan& set, const Plan& before) const {
  if (set != nullptr) return {set};
  std::vector<Plan> plans;
  const Plan trees = racks_.plan();
  if (trees != nullptr) plans.push_back(trees);
  const bool has_others = racks_.has_racks() && before != nullptr && before != trees &&
                          before->source == PlanSource::kRacks;
  if (has_others) plans.push_back(before);
  plans.push_back(nullptr);
  return plans;
}

// The first plan that fits. The error is that of the last one.
Result<JobPlanner::Chosen> JobPlanner::lay_out_first(const std::vector<Plan>& plans,
                                                     const JobRecord& job,
                                                     const std::vector<std::string>& hosts,
                                                     const RankNumbers& left_out) const {
  for (std::size_t i = 0;; ++i) {
    auto layout = lay_out_without(left_out, job, plans[i], hosts);
    if (layout) return Chosen{plans[i], std::move(layout).value()};
    if (i + 1 == plans.size()) return layout.error();
  }
}

JobPlanner::Plan JobPlanner::closed_form() const {
  const Members members = members_.usable();
  if (members.empty()) return nullptr;
  return std::make_shared<const SetPlan>(
      SetPlan{"", {closed_form_plan(members), 0}, PlanSource::kClosedForm});
}

Result<Layout> JobPlanner::lay_out_job(const JobRecord& job, const Plan& plan,
                                       const std::vector<std::string>& hosts) const {
  const Members usable = members_.usable();
  if (usable.empty()) {
    return refused(
        "all nodes are draining or silent: start another, or take one back (tallyctl drain "
        "--undo)");
  }
  if (plan == nullptr) return star_layout(usable, job.ranks, split_bytes_);
  const MachinePlan& machines = plan->machines;
  Members known = departed_.with_present();
  for (auto& [node, member] : known) member.draining |= members_.is_silent(node);
  if (const auto fine = check_layout(machines, known); !fine) return fine.error();
  const std::size_t workers = machines.of().workers.size();
  if (job.ranks < workers) {
    return refused(
        fmt::format("{} has {} workers and the job {} ranks: give it as many, or a plan "
                    "of its own (tallyctl plan set FILE --job)",
                    plan->title(), workers, job.ranks));
  }
  if (!asks_for_hosts(machines)) {
    // Stars do not depend on hosts. The speed of the job is that of ranks spread evenly over the
    // machines.
    std::vector<std::vector<std::uint16_t>> all(workers);
    for (std::uint32_t rank = 0; rank < job.ranks; ++rank) {
      all[rank % workers].push_back(static_cast<std::uint16_t>(rank));
    }
    return lay_out(machines, known, all, split_bytes_);
  }
  const auto ranks = ranks_of_workers(machines, known, hosts);
  if (!ranks) return ranks.error();
  return lay_out(machines, known, *ranks, split_bytes_);
}

// The trees stay as they are, so that ranks which return find their places. They become stars where
// a machine of theirs has no rank any more, or where the coordinator before this one knew the hosts
// of the ranks that are left out.
Result<Layout> JobPlanner::lay_out_without(const RankNumbers& left_out, const JobRecord& job,
                                           const Plan& plan,
                                           const std::vector<std::string>& hosts) const {
  if (left_out.empty()) return lay_out_job(job, plan, hosts);
  const bool needs_hosts = plan != nullptr && asks_for_hosts(plan->machines);
  const bool has_hosts = std::all_of(left_out.begin(), left_out.end(),
                                     [&](std::uint32_t rank) { return !hosts[rank].empty(); });
  if (!needs_hosts || has_hosts) {
    auto layout = lay_out_job(job, plan, hosts);
    if (!layout || leave_out(left_out, *layout)) return layout;
  }
  auto stars = lay_out_job(job, nullptr, hosts);
  if (!stars || leave_out(left_out, *stars)) return stars;
  return refused("no rank is left");
}

// Notes the source of the job's plan.
void JobPlanner::note_plan(JobRecord& job, const Plan& plan) const {
  job.plan_epoch = plan != nullptr ? plan->machines.file.epoch : 0;
  job.made_by = plan != nullptr ? plan : closed_form();
}

void JobPlanner::give_plan(JobRecord& job, Chosen chosen) const {
  note_plan(job, chosen.plan);
  Layout& layout = chosen.layout;
  job.plan = std::move(layout.plan);
  job.rate = layout.rate;
  job.buffers = layout.buffers;
  job.nodes = std::move(layout.nodes);
  for (PlanNode& one : job.nodes) one.placement = store_.next_placement();
}

}  // namespace tally::control
