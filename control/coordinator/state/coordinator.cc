#include "control/coordinator/state/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "control/coordinator/state/jobs/assignment_of.h"

namespace tally::control {

Coordinator::Coordinator(CoordinatorOptions options, Store& store, Nanos now)
    : store_(store),
      timeouts_(options.timeouts),
      return_until_(
          store.members().empty() && store.jobs().empty() ? now : now + timeouts_.node_return()),
      plans_(store),
      departed_(store, plans_),
      members_(store, departed_),
      news_(timeouts_.node_silence()),
      heartbeats_(timeouts_.second_look()),
      jobs_(store, now + timeouts_.rank_resume()),
      admission_({options.open_jobs, options.max_jobs, options.max_ranks, std::move(options.jobs)}),
      racks_(members_, options.plans_racks),
      planner_(members_, departed_, plans_, racks_, store, options.split_bytes),
      versions_(jobs_, news_, timeouts_),
      changes_(jobs_, plans_),
      repairs_(jobs_, timeouts_.repair()) {
  for (const auto& [epoch, job] : store_.jobs()) {
    for (const PlanNode& one : job->nodes) {
      awaited_[one.node] = one.member.name;
      news_.add(one.node, now, timeouts_.node_return());
      heartbeats_.expect(one.node, now + timeouts_.node_rejoin());
    }
  }
}

// -- Nodes -----------------------------------------------------------------------------------

Result<NodeId> Coordinator::join(const Member& member, std::uint32_t epoch, Nanos now,
                                 const ReturningNode& returning) {
  const auto awaited = awaited_.find(returning.was);
  const bool returns = awaited != awaited_.end() && awaited->second == member.name;
  auto node = members_.join(member, epoch, returns ? returning.was : 0);
  if (!node) return node;
  if (returns) awaited_.erase(awaited);
  // Jobs that the coordinator before this one was ending may have earlier numbers of the node.
  std::vector<NodeId> earlier;
  for (const auto& [number, name] : awaited_) {
    if (name == member.name) earlier.push_back(number);
  }
  for (const NodeId number : earlier) leave(number, "it has been started again");
  news_.add(*node, now);
  heartbeats_.asked(*node);
  take_back(*node, returning.placements);
  members_changed(now);
  return node;
}

// Jobs whose placement the node has lost are repaired, or end. A placement that the node has not
// got yet is sent again. Placements of unknown jobs, and of those that are over, end at the node: a
// message that said so may be lost.
void Coordinator::take_back(NodeId node, const std::vector<std::uint64_t>& placements) {
  std::vector<std::uint32_t> lost;
  for (const auto& [epoch, state] : jobs_.states()) {
    if (!state.nodes.contains(node) || state.stage == JobStage::kOver) continue;
    const JobRecord& job = *jobs_.record(epoch);
    for (const PlanNode& one : job.nodes) {
      if (one.node != node) continue;
      if (std::find(placements.begin(), placements.end(), one.placement) != placements.end())
        continue;
      if (state.unconfirmed.contains(node)) {
        news_.assign(node, assignment_of(job, one));
      } else {
        lost.push_back(epoch);
      }
    }
  }
  const std::string name = members_.all().at(node).name;
  for (const std::uint32_t epoch : lost) {
    const Error dropped = refused(fmt::format("node \"{}\" dropped it", name));
    // The first rank that leaves a version ends it at a node.
    if (jobs_.find(epoch)->stage == JobStage::kLeaving) {
      versions_.over_at(epoch, node, dropped);
    } else {
      versions_.gone_from(epoch, node, dropped);
    }
  }
  for (const std::uint64_t placement : placements) {
    const auto epoch = jobs_.placed_at(node, placement);
    if (!epoch || jobs_.find(*epoch)->stage == JobStage::kOver) news_.withdraw(node, placement);
  }
  versions_.forget_over(node, placements);
}

void Coordinator::await(NodeId node, Nanos now) {
  const auto name = members_.leave(node, true);
  heartbeats_.erase(node);
  if (!name) return;
  awaited_[node] = *name;
  news_.add(node, now, timeouts_.node_return());
  versions_.node_awaited(
      node, {Status::kUnavailable, fmt::format("node \"{}\" has lost its connection", *name)});
  repairs_.members_changed();
}

void Coordinator::leave(NodeId node, std::string_view why) {
  auto name = members_.leave(node);
  if (const auto awaited = awaited_.find(node); !name && awaited != awaited_.end()) {
    name = awaited->second;
  }
  awaited_.erase(node);
  if (!name) return;
  heartbeats_.erase(node);
  news_.erase(node);
  versions_.node_left(node,
                      {Status::kUnavailable, fmt::format("node \"{}\" has left: {}", *name, why)});
  repairs_.members_changed();
}

void Coordinator::listen(NodeId node, Nanos until) {
  news_.listen(node, until);
  heartbeats_.asked(node);
  if (members_.set_silent(node, false)) has_returned_ = true;
}

void Coordinator::expect(NodeId node, Nanos now) {
  if (awaited_.contains(node)) {
    heartbeats_.expect(node, now + timeouts_.node_rejoin());
  } else if (members_.has(node)) {
    heartbeats_.expect(node, now + timeouts_.heartbeat());
  }
}

// Jobs that cannot be repaired keep a node that is silent, until it has left.
std::vector<std::string> Coordinator::take_silent(Nanos now) {
  std::vector<std::string> names;
  for (const NodeId node : heartbeats_.take_silent(now)) {
    const auto awaited = awaited_.find(node);
    const bool is_member = awaited == awaited_.end();
    const std::string& name =
        names.emplace_back(is_member ? members_.all().at(node).name : awaited->second);
    if (is_member) members_.set_silent(node, true);
    versions_.node_silent(node, {Status::kUnavailable, fmt::format("node \"{}\" is silent: it is "
                                                                   "stopped, or cut off",
                                                                   name)});
  }
  return names;
}

void Coordinator::members_changed(Nanos now, Nanos calm) {
  changes_.members_changed(now, calm);
  repairs_.members_changed();
}

void Coordinator::set_rails(NodeId node, std::vector<Rail> rails, Nanos now) {
  if (members_.set_rails(node, std::move(rails))) members_changed(now);
}

Outcome Coordinator::set_speeds(std::map<std::string, Measured> measured) {
  return members_.set_speeds(std::move(measured));
}

void Coordinator::report(NodeId node, const Report& report) {
  const auto epoch = jobs_.placed_at(node, report.placement);
  if (!epoch || !members_.has(node)) return;  // an awaited node must join first
  const std::string& name = members_.all().at(node).name;
  if (report.over) {
    versions_.over_at(*epoch, node, refused(fmt::format("node \"{}\" dropped it", name)));
  } else if (!report.error.empty()) {
    versions_.gone_from(*epoch, node, refused(fmt::format("node \"{}\": {}", name, report.error)));
  } else {
    versions_.confirm(*epoch, node);
  }
}

// -- Ranks -----------------------------------------------------------------------------------

void Coordinator::open(Ticket ticket, const Opening& opening, Nanos now) {
  if (members_.all().empty()) {
    return versions_.answer(ticket, std::make_shared<const JobRecord>(), 0);
  }
  if (unlocks(opening) && versions_.ends_for(opening.job, opening.rank, opening.ranks)) {
    return versions_.answer(
        ticket,
        Error{Status::kStaleEpoch,
              fmt::format("job \"{}\": its last run is ending: ask again", opening.job)},
        0);
  }
  if (const auto may = admission_.admits(opening, jobs_); !may) {
    return versions_.answer(ticket, may.error(), 0);
  }
  const JobRecord* job = jobs_.current(opening.job);
  if (job != nullptr && jobs_.find(job->epoch)->absent.contains(opening.rank)) {
    return versions_.come_back(ticket, job->epoch, opening.rank, opening.host);
  }
  const std::uint32_t epoch = job != nullptr ? job->epoch : store_.next_epoch();
  if (job == nullptr) jobs_.add(admission_.new_job(opening, epoch));
  versions_.enter(ticket, epoch, opening.rank, opening.host);
  place_gathered(now);
}

void Coordinator::resume(Ticket ticket, const Opening& opening,
                         const std::vector<std::uint32_t>& epochs) {
  const auto epoch = admission_.may_resume(opening, epochs, jobs_);
  if (!epoch) return versions_.answer(ticket, epoch.error(), 0);
  versions_.resume(ticket, *epoch, opening.rank, opening.host);
}

// Places the jobs that wait for no further rank.
void Coordinator::place_gathered(Nanos now) {
  std::vector<std::uint32_t> epochs;
  for (const auto& [epoch, state] : jobs_.states()) {
    if (state.stage != JobStage::kGathering) continue;
    const bool waits =
        !state.missing_ranks().empty() && planner_.needs_all_ranks(jobs_.record(epoch)->name);
    if (!waits) epochs.push_back(epoch);
  }
  for (const std::uint32_t epoch : epochs) {
    auto placed = planner_.place(*jobs_.record(epoch), jobs_.find(epoch)->hosts);
    if (placed) {
      versions_.place(std::move(placed).value(), now);
    } else {
      versions_.end(epoch, cannot_place(placed.error(), now));
    }
  }
}

// Nodes join a coordinator that takes over one after another. Until all had time for it, a job that
// these nodes cannot serve is no reason to refuse the job: its ranks ask again.
Error Coordinator::cannot_place(const Error& why, Nanos now) const {
  if (now >= return_until_) return why;
  return {Status::kUnavailable,
          fmt::format("{}; nodes may yet join this coordinator, which has just taken over",
                      why.message)};
}

// -- Drains and plans ------------------------------------------------------------------------

Outcome Coordinator::drain(const std::string& node, bool undo, Nanos now) {
  const auto changed = members_.drain(node, undo);
  if (!changed) return changed.error();
  if (!undo) {
    changes_.want_new_layouts();
  } else if (*changed) {
    members_changed(now, 0);
  }
  return Unit{};
}

Result<Coordinator::Drained> Coordinator::drained(const std::string& node) const {
  const auto found = members_.find(node);
  if (!found) return found.error();
  return Drained{*found, members_.all().at(*found).draining, jobs_at(jobs_, *found)};
}

Outcome Coordinator::set_plan(const std::string& job, MachinePlan plan, Nanos now) {
  if (auto fine = check_layout(plan, members_.all()); !fine) return fine;
  if (auto kept = plans_.set(job, std::move(plan)); !kept) return kept;
  departed_.forget_unneeded();
  place_gathered(now);
  return Unit{};
}

void Coordinator::drop_plan(const std::string& job, Nanos now) {
  plans_.drop(job);
  departed_.forget_unneeded();
  place_gathered(now);
}

bool Coordinator::planned(std::uint64_t number, Result<plan::Plan> plan, Nanos now) {
  const bool is_new = racks_.made(number, std::move(plan));
  if (is_new) changes_.plan_made(now);
  return is_new;
}

void Coordinator::begin_change(std::uint32_t epoch, Nanos now) {
  JobState* state = jobs_.find(epoch);
  if (state == nullptr || state->stage != JobStage::kRunning) return;
  const Wanted wanted = std::exchange(state->wanted, Wanted::kNothing);
  auto next =
      planner_.next_version(*jobs_.record(epoch), wanted, state->hosts, state->still_absent());
  if (!next) {
    state->trouble = fmt::format("{}; it keeps the plan that it has", next.error().message);
  } else if (next->epoch == epoch) {
    jobs_.update(std::move(next).value());
  } else {
    versions_.begin_next(std::move(next).value(), now);
  }
}

void Coordinator::advance_repairs(Nanos now) {
  const auto due = repairs_.due(now);
  for (const std::uint32_t epoch : due.expired) {
    const Delay delay = delay_of_repair(jobs_, epoch);
    versions_.give_up(epoch,
                      {Status::kUnavailable, fmt::format("{}; not repaired within {} s: the job {}",
                                                         jobs_.find(epoch)->repair->why,
                                                         timeouts_.repair() / kSecond, delay.why)},
                      delay.culprit);
  }
  for (const std::uint32_t epoch : due.not_resumed) versions_.not_resumed(epoch);
  for (const std::uint32_t epoch : due.attempts) {
    const JobState& lost = *jobs_.find(epoch);
    auto next = planner_.repaired(*jobs_.record(epoch), lost.hosts, lost.absent);
    if (next) {
      versions_.begin_next(std::move(next).value(), now);
    } else {
      repairs_.wait_for_members(epoch, next.error().message);
    }
  }
}

// -- Messages to send ------------------------------------------------------------------------

Coordinator::Actions Coordinator::act(Nanos now) {
  Actions actions;
  actions.lost = news_.silent(now);
  for (const NodeId node : actions.lost) leave(node, "it has not asked for news for too long");
  actions.silent = take_silent(now);
  if (std::exchange(has_returned_, false)) members_changed(now);
  versions_.end_late(now);
  actions.plan = racks_.take_request();
  changes_.await_plan(racks_.is_due());
  const auto ready = changes_.ready(now);  // changes that settle now come before these
  versions_.advance_changes(now);
  for (const std::uint32_t epoch : ready) begin_change(epoch, now);
  advance_repairs(now);
  actions.news = news_.take(now);
  actions.answers = versions_.take_answers();
  actions.notifications = versions_.take_notifications();
  actions.repairs = versions_.take_repair_events();
  return actions;
}

Nanos Coordinator::next_deadline() const {
  return std::min({changes_.next_deadline(), news_.next_deadline(), heartbeats_.next_deadline(),
                   versions_.next_deadline(), repairs_.next_deadline()});
}

}  // namespace tally::control
