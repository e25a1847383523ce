// How the coordinator gives a job its place: by the plan in force, or by the closed form for stars.
#include <fmt/format.h>

#include <algorithm>

#include "control/coordinator/closed_form.h"
#include "control/coordinator/coordinator.h"
#include "control/coordinator/layout.h"
#include "control/coordinator/shares.h"

namespace tally::control {
Outcome Coordinator::set_plan(const std::string& job, MachinePlan plan, Nanos now) {
  if (auto fine = check_layout(plan, store_.members()); !fine) return fine;
  if (auto kept = plans_.set(job, std::move(plan)); !kept) return kept;
  forget_departed();
  place_gathered(now);
  return Unit{};
}

void Coordinator::drop_plan(const std::string& job, Nanos now) {
  plans_.drop(job);
  forget_departed();
  place_gathered(now);
}

// nullptr: stars by the closed form.
Result<Layout> Coordinator::lay_out_job(const JobRecord& job, const SetPlan* plan) const {
  const Members usable = usable_members();
  if (usable.empty()) {
    return refused(
        "all nodes are draining: start another, or take one back (tallyctl drain --undo)");
  }
  if (plan == nullptr) return star_layout(usable, job.ranks, options_.split_bytes);
  const MachinePlan& machines = plan->machines;
  const Members members = known_members();
  if (const auto fine = check_layout(machines, members); !fine) return fine.error();
  const std::size_t workers = machines.of().workers.size();
  if (job.ranks < workers) {
    return refused(
        fmt::format("{} has {} workers and the job {} ranks: give it as many, or a plan "
                    "of its own (tallyctl plan set FILE --job)",
                    plan->title(), workers, job.ranks));
  }
  if (!asks_for_hosts(machines)) {
    // Stars do not care; the speed of the job is that of ranks that are evenly on their machines.
    std::vector<std::vector<std::uint16_t>> all(workers);
    for (std::uint32_t rank = 0; rank < job.ranks; ++rank) {
      all[rank % workers].push_back(static_cast<std::uint16_t>(rank));
    }
    return lay_out(machines, members, all, options_.split_bytes);
  }
  const auto ranks = ranks_of_workers(machines, members, courses_.at(job.epoch).hosts);
  if (!ranks) return ranks.error();
  return lay_out(machines, members, *ranks, options_.split_bytes);
}

// What a drained one's workers have lost counts: they are there still.
Members Coordinator::usable_members() const {
  Members usable = without_lost_rails(store_.members());
  std::erase_if(usable, [](const auto& member) { return member.second.draining; });
  return usable;
}

// The plan in force, with what members and NICs there are now, where jobs run by it; one that was
// set since waits for jobs that form, or for somebody who says otherwise.
void Coordinator::renew_in_force() {
  for (auto& [epoch, course] : courses_) {
    const JobRecord& job = store_.jobs().at(epoch);
    if (!is_alive(course) || job.made_by == nullptr) continue;
    const auto plan = plans_.find(job.name);
    if (plan == nullptr ? !job.made_by->closed_form : plan != job.made_by) continue;
    want(course, Wanted::kOwnPlan);
  }
}

// Where ranks' machines matter, all ranks must have come.
bool Coordinator::may_place(const JobRecord& job) const {
  const auto plan = plans_.find(job.name);
  const auto& by_rank = courses_.at(job.epoch).by_rank;
  const bool all = std::find(by_rank.begin(), by_rank.end(), Ticket{0}) == by_rank.end();
  return all || plan == nullptr || !asks_for_hosts(plan->machines);
}

void Coordinator::place_gathered(Nanos now) {
  std::vector<std::uint32_t> epochs;
  for (const auto& [epoch, course] : courses_) {
    if (course.stage == Stage::kGathering && may_place(store_.jobs().at(epoch))) {
      epochs.push_back(epoch);
    }
  }
  for (const std::uint32_t epoch : epochs) place(epoch, now);
}

void Coordinator::place(std::uint32_t epoch, Nanos now) {
  JobRecord job = store_.jobs().at(epoch);
  const auto plan = plans_.find(job.name);
  auto layout = lay_out_job(job, plan.get());
  if (!layout) {
    end(epoch, layout.error());
    return forget_if_done(epoch);
  }
  give_plan(job, plan, std::move(layout).value());
  store_.put(job);
  ask_nodes(job, courses_[epoch], Stage::kPlacing, now);
}

std::shared_ptr<const SetPlan> Coordinator::in_force(const std::string& job) const {
  if (auto plan = plans_.find(job)) return plan;
  return closed_form();
}

std::shared_ptr<const SetPlan> Coordinator::closed_form() const {
  const Members members = usable_members();
  if (members.empty()) return nullptr;
  return std::make_shared<const SetPlan>(SetPlan{"", {closed_form_plan(members), 0}, true});
}

// What the job's plan is from; nullptr: the closed form.
void Coordinator::note_plan(JobRecord& job, const std::shared_ptr<const SetPlan>& plan) const {
  job.plan_epoch = plan != nullptr ? plan->machines.file.epoch : 0;
  job.made_by = plan != nullptr ? plan : closed_form();
}

void Coordinator::give_plan(JobRecord& job, const std::shared_ptr<const SetPlan>& plan,
                            Layout layout) {
  note_plan(job, plan);
  job.plan = std::move(layout.plan);
  job.rate = layout.rate;
  job.slots = layout.slots;
  job.nodes = std::move(layout.nodes);
  for (PlanNode& one : job.nodes) one.placement = store_.next_placement();
}

void Coordinator::ask_nodes(const JobRecord& job, Course& course, Stage stage, Nanos now) {
  course.stage = stage;
  course.deadline = now + kPlacingPatience;
  for (const PlanNode& one : job.nodes) {
    course.nodes.insert(one.node);
    course.unconfirmed.insert(one.node);
    listeners_[one.node].news.placements.push_back(placement_of(job, one));
  }
}

// As the node `from` reaches them: on its own machine by shared memory, as clients do; else by a
// NIC that is up for the job.
std::vector<Neighbour> Coordinator::neighbours(const JobRecord& job, const Member& from,
                                               const std::vector<LaneOf>& lanes) const {
  std::vector<Neighbour> list;
  for (const LaneOf& one : lanes) {
    const auto at = std::find_if(job.nodes.begin(), job.nodes.end(),
                                 [&](const PlanNode& other) { return other.node == one.node; });
    const Member& member = at->member;
    const bool here = !member.local.empty() && (member.host == from.host || member.tcp.empty());
    list.push_back({member.name, here ? "" : member.usable_tcp(), here ? member.local : "",
                    one.lane, static_cast<std::uint32_t>(at - job.nodes.begin() + 1)});
  }
  return list;
}

Placement Coordinator::placement_of(const JobRecord& job, const PlanNode& one) const {
  Placement placement;
  placement.id = one.placement;
  placement.job = job.name;
  placement.token = job.token;
  placement.epoch = job.epoch;
  placement.follows = job.follows;
  placement.ranks = job.ranks;
  placement.weight = job.weight;
  placement.plan = job.plan;
  placement.plan_epoch = job.plan_epoch;
  placement.trees = one.trees;
  placement.vertices = one.vertices;
  placement.below = neighbours(job, one.member, one.below);
  placement.above = neighbours(job, one.member, one.above);
  placement.slots = job.slots;
  placement.nodes = static_cast<std::uint32_t>(job.nodes.size());
  placement.rate = one.rate != 0 ? one.rate : job.rate;
  placement.rails = one.rails;
  placement.stands_in_for = one.stands_in_for;
  return placement;
}

}  // namespace tally::control
