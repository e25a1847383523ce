#include "control/coordinator/state/jobs/job_versions.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "control/coordinator/state/jobs/assignment_of.h"

namespace tally::control {

// -- Nodes -----------------------------------------------------------------------------------

void JobVersions::place(JobRecord placed, Nanos now) {
  const std::uint32_t epoch = placed.epoch;
  JobState& state = *jobs_.find(epoch);
  state.stage = JobStage::kPlacing;
  jobs_.update(std::move(placed));
  ask_nodes(*jobs_.record(epoch), state, now);
}

void JobVersions::begin_next(JobRecord next, Nanos now) {
  JobState& before = *jobs_.find(next.follows);
  const std::uint32_t epoch = before.next = next.epoch;
  JobState& state = jobs_.add(std::move(next));
  state.stage = JobStage::kNext;
  state.hosts = before.hosts;
  ask_nodes(*jobs_.record(epoch), state, now);
}

void JobVersions::ask_nodes(const JobRecord& job, JobState& state, Nanos now) {
  state.deadline = now + timeouts_.placing();
  for (const PlanNode& one : job.nodes) {
    state.nodes.insert(one.node);
    state.unconfirmed.insert(one.node);
    news_.assign(one.node, assignment_of(job, one));
  }
}

void JobVersions::confirm(std::uint32_t epoch, NodeId node) {
  JobState* state = jobs_.find(epoch);
  if (state == nullptr) return;
  state->unconfirmed.erase(node);
  if (state->stage != JobStage::kPlacing || !state->unconfirmed.empty()) return;
  state->stage = JobStage::kRunning;
  jobs_.set_runs(epoch, true);
  for (std::uint32_t rank = 0; rank < state->by_rank.size(); ++rank) {
    const Ticket ticket = state->by_rank[rank];
    if (state->waiting.contains(ticket)) answer(ticket, jobs_.record(epoch), rank);
  }
  state->waiting.clear();
}

// The first node to drop a job ends it for all nodes, where it cannot be repaired.
void JobVersions::gone_from(std::uint32_t epoch, NodeId node, const Error& why) {
  JobState* state = jobs_.find(epoch);
  if (state == nullptr) return;
  if (state->stage == JobStage::kLeaving) {
    if (!begin_repair(used_with(epoch), why.message)) over_at(epoch, node, why);
    return;
  }
  state->nodes.erase(node);
  state->unconfirmed.erase(node);
  if (state->stage == JobStage::kNext) return fail_next(epoch, why.message);
  if (state->stage == JobStage::kRepairing || begin_repair(epoch, why.message)) return;
  end(epoch, why);
}

// A version that is leaving stays until its ranks have closed their sessions. Where ranks can be
// repaired, or may resume the version, they report what they lose, and close their sessions first.
void JobVersions::over_at(std::uint32_t epoch, NodeId node, const Error& why) {
  JobState* state = jobs_.find(epoch);
  if (state == nullptr) return;
  const bool is_leaving = state->stage == JobStage::kLeaving;
  const bool is_running = state->stage == JobStage::kRunning;
  const bool goes_on = is_leaving || state->stage == JobStage::kRepairing ||
                       (is_running && jobs_.is_repairable(*state));
  if (!goes_on) return gone_from(epoch, node, why);
  state->released.insert(node);
  end_when_left(epoch);
}

// Ranks of an earlier coordinator may not report that they have left a version. All its nodes that
// are still there report then that it is over.
void JobVersions::end_when_left(std::uint32_t epoch) {
  const JobState* state = jobs_.find(epoch);
  const bool is_leaving = state != nullptr && state->stage == JobStage::kLeaving;
  if (!is_leaving || !state->change || !state->change->is_taken_over()) return;
  const bool is_left = std::includes(state->released.begin(), state->released.end(),
                                     state->nodes.begin(), state->nodes.end());
  if (is_left) end(epoch, refused("its job has another version"));
}

void JobVersions::forget_over(NodeId node, const std::vector<std::uint64_t>& placements) {
  std::vector<std::uint32_t> epochs;
  for (const auto& [epoch, state] : jobs_.states()) {
    if (state.stage != JobStage::kOver || !state.nodes.contains(node)) continue;
    for (const PlanNode& one : jobs_.record(epoch)->nodes) {
      const bool has =
          std::find(placements.begin(), placements.end(), one.placement) != placements.end();
      if (one.node == node && !has) epochs.push_back(epoch);
    }
  }
  for (const std::uint32_t epoch : epochs) gone_from(epoch, node, refused("it is over"));
}

// No version ends before the node is erased from all of them: the end of one withdraws the others
// from their nodes.
void JobVersions::node_left(NodeId node, const Error& why) {
  std::vector<std::uint32_t> epochs, leaving;
  for (auto& [epoch, state] : jobs_.states()) {
    state.unconfirmed.erase(node);
    if (state.nodes.erase(node) == 0) continue;
    const bool is_unused = state.stage == JobStage::kLeaving && used_with(epoch) == 0;
    (is_unused ? leaving : epochs).push_back(epoch);
  }
  for (const std::uint32_t epoch : epochs) gone_from(epoch, node, why);
  for (const std::uint32_t epoch : leaving) end_when_left(epoch);
}

void JobVersions::node_awaited(NodeId node, const Error& why) {
  std::vector<std::uint32_t> epochs;
  for (const auto& [epoch, state] : jobs_.states()) {
    if (state.stage != JobStage::kNext || !state.unconfirmed.contains(node)) continue;
    if (jobs_.find(jobs_.record(epoch)->follows)->repair) epochs.push_back(epoch);
  }
  for (const std::uint32_t epoch : epochs) fail_next(epoch, why.message);
}

void JobVersions::node_silent(NodeId node, const Error& why) {
  std::vector<std::uint32_t> epochs;
  for (const auto& [epoch, state] : jobs_.states()) {
    if (state.nodes.contains(node)) epochs.push_back(epoch);
  }
  for (const std::uint32_t epoch : epochs) {
    const JobState* state = jobs_.find(epoch);
    if (state == nullptr) continue;
    if (state->stage == JobStage::kNext) {
      want_again(*jobs_.find(jobs_.record(epoch)->follows));
      fail_next(epoch, why.message);
    } else {
      begin_repair(state->stage == JobStage::kLeaving ? used_with(epoch) : epoch, why.message);
    }
  }
}

// -- Ranks -----------------------------------------------------------------------------------

void JobVersions::answer(Ticket ticket, Result<SharedJob> outcome, std::uint32_t rank) {
  answers_.push_back({ticket, std::move(outcome), rank});
}

void JobVersions::enter(Ticket ticket, std::uint32_t epoch, std::uint32_t rank,
                        const std::string& host) {
  jobs_.take_place(ticket, epoch, rank, host);
  // Messages wait until the rank asks for them, and ranks of older releases have no such policy.
  if (jobs_.record(epoch)->rank_loss.finishes) jobs_.listen(ticket, true);
  JobState& state = *jobs_.find(epoch);
  if (state.departed && state.departed->rank == rank) state.departed.reset();
  if (state.stage == JobStage::kRunning) return answer(ticket, jobs_.record(epoch), rank);
  state.waiting.insert(ticket);
}

void JobVersions::resume(Ticket ticket, std::uint32_t epoch, std::uint32_t rank,
                         const std::string& host) {
  jobs_.take_place(ticket, epoch, rank, host);
  JobState& state = *jobs_.find(epoch);
  if (state.repair) state.repair->reported.erase(rank);  // the rank reports the loss again
  if (state.departed && state.departed->rank == rank) state.departed.reset();
  std::erase_if(state.missing, [rank](const Departure& one) { return one.rank == rank; });
  answer(ticket, jobs_.record(epoch), rank);
  const std::uint32_t before = jobs_.record(epoch)->follows;
  JobState* leaving = jobs_.find(before);
  if (leaving == nullptr || leaving->stage != JobStage::kLeaving || !leaving->change) return;
  leaving->by_rank[rank] = ticket;
  leaving->change->resume(rank);
  settle_change(before);
}

void JobVersions::close(Ticket ticket, std::string_view how, bool has_died, Nanos resume_until) {
  const auto epoch = jobs_.erase_ticket(ticket);
  if (!epoch) return;
  const auto rank = jobs_.find(*epoch)->rank_of(ticket);
  if (!rank) return forget_returning(*epoch, ticket);
  lose_rank(*epoch, ticket);
  JobState* state = jobs_.find(*epoch);
  if (state == nullptr) return;
  state->waiting.erase(ticket);
  const bool begun = state->stage != JobStage::kGathering && state->stage != JobStage::kPlacing;
  const bool in_use = state->stage == JobStage::kRunning || state->stage == JobStage::kRepairing;
  const bool is_dead = state->repair && state->repair->blamed.contains(*rank);
  if (has_died && in_use && !is_dead) {
    state->resume_until = std::max(state->resume_until, resume_until);
    if (state->resume_until != 0) {
      state->missing.push_back({*rank, std::string(how)});
      return;
    }
  }
  if (in_use && leave_out(*epoch, {*rank}, fmt::format("rank {} {}", *rank, how), !has_died))
    return;
  if (begun && !state->departed) state->departed = {*rank, std::string(how)};
  if (state->stage == JobStage::kRepairing) {
    return give_up(*epoch, {Status::kPeerLost, fmt::format("rank {} {}", *rank, how)}, rank);
  }
  if (state->stage == JobStage::kRunning && !state->released.empty()) {
    return end(*epoch, refused("a rank has left it"));
  }
  if (begun || !state->waiting.empty()) return;
  end(*epoch, refused("nobody waits for it any more"));
}

// The rank loses its place in its version, and in the version before while that is leaving.
void JobVersions::lose_rank(std::uint32_t epoch, Ticket ticket) {
  for (const std::uint32_t each : {jobs_.record(epoch)->follows, epoch}) {
    JobState* state = jobs_.find(each);
    const auto rank = state != nullptr ? state->rank_of(ticket) : std::nullopt;
    if (!rank) continue;
    state->by_rank[*rank] = 0;
    if (!state->change) continue;
    // Ranks that have left do not report that they use the version no more.
    if (jobs_.record(each)->rank_loss.finishes) state->change->leave_out(*rank);
    state->change->lost(*rank);
    settle_change(each);
  }
}

void JobVersions::report(Ticket ticket, std::uint32_t epoch, const RankReport& report) {
  if (report.report == Change::Report::kLost) return lose(ticket, epoch, report);
  if (report.report == Change::Report::kCannot) return cannot_change(ticket, epoch, report.why);
  const auto changing = jobs_.changing(ticket, epoch);
  if (!changing) {  // the report arrives after the end of the change
    if (report.report != Change::Report::kMoved || jobs_.version_of(ticket) != epoch) return;
    // The rank has resumed the job, and may still have the version before.
    notifications_.push_back({.ticket = ticket,
                              .rank = *jobs_.find(epoch)->rank_of(ticket),
                              .word = Change::Word::kLeave,
                              .epoch = epoch});
    return;
  }
  jobs_.find(changing->from)->change->report(changing->rank, report.report, report.rounds);
  settle_change(changing->from);
}

void JobVersions::cannot_change(Ticket ticket, std::uint32_t epoch, const std::string& why) {
  const auto changing = jobs_.changing(ticket, epoch);
  if (!changing) return;
  jobs_.find(changing->from)->change->call_off(fmt::format("rank {}: {}", changing->rank, why));
  settle_change(changing->from);
}

// -- Time ------------------------------------------------------------------------------------

void JobVersions::end_late(Nanos now) {
  std::vector<std::uint32_t> late;
  for (const auto& [epoch, state] : jobs_.states()) {
    if (!state.unconfirmed.empty() && state.deadline <= now) late.push_back(epoch);
  }
  for (const std::uint32_t epoch : late) {
    const JobState* state = jobs_.find(epoch);
    if (state == nullptr) continue;
    const std::string why = fmt::format(
        "these nodes have not taken it within {} s: {}: look at their logs",
        timeouts_.placing() / kSecond, name_nodes(*jobs_.record(epoch), state->unconfirmed));
    if (state->stage == JobStage::kNext) {
      fail_next(epoch, why);
    } else if (state->stage == JobStage::kPlacing) {
      end(epoch, {Status::kUnavailable, why});
    }
  }
}

void JobVersions::advance_changes(Nanos now) {
  std::vector<std::uint32_t> changing;
  for (auto& [epoch, state] : jobs_.states()) {
    if (state.next == 0) continue;
    const bool may_begin = state.stage == JobStage::kRunning || state.stage == JobStage::kRepairing;
    if (!state.change && may_begin && jobs_.find(state.next)->unconfirmed.empty()) {
      const auto ranks = static_cast<std::uint32_t>(state.by_rank.size());
      state.change = state.repair ? Change::repair(ranks, state.absent)
                                  : Change(ranks, now, timeouts_.change(), state.absent);
      if (state.repair) state.repair->answer_until = now + timeouts_.change();
    }
    if (state.change) state.change->tick(now);
    changing.push_back(epoch);
  }
  for (const std::uint32_t epoch : changing) {
    settle_change(epoch);
    dismiss_silent(epoch, now);
  }
}

Nanos JobVersions::next_deadline() const {
  Nanos next = kForever;
  for (const auto& [epoch, state] : jobs_.states()) {
    const bool placing = state.stage == JobStage::kPlacing || state.stage == JobStage::kNext;
    if (placing && !state.unconfirmed.empty()) next = std::min(next, state.deadline);
    if (state.change) next = std::min(next, state.change->deadline());
    if (state.change && state.repair) next = std::min(next, state.repair->answer_until);
  }
  return next;
}

// -- Changes ---------------------------------------------------------------------------------

void JobVersions::notify_ranks(JobState& state) {
  for (const Change::Instruction& one : state.change->take()) {
    const Ticket ticket = state.by_rank[one.rank];
    if (ticket == 0) continue;
    RankNotification notification{
        .ticket = ticket, .rank = one.rank, .word = one.word, .epoch = state.next};
    if (one.word == Change::Word::kPrepare) {
      notification.version = jobs_.record(state.next);
      notification.is_repair = state.change->is_repair();
    }
    if (one.word == Change::Word::kDecided) notification.decision = state.change->decision();
    if (one.word == Change::Word::kCalledOff) notification.why = state.change->why_called_off();
    notifications_.push_back(std::move(notification));
  }
}

// Notifies the ranks, and carries out what the change's stage means for the two versions.
void JobVersions::settle_change(std::uint32_t epoch) {
  JobState* state = jobs_.find(epoch);
  if (state == nullptr || !state->change) return;
  notify_ranks(*state);
  const Change::Stage stage = state->change->stage();
  if (stage == Change::Stage::kMoving && state->stage == JobStage::kRunning) {
    use_next(*state);
  } else if (stage == Change::Stage::kOver) {
    if (state->stage == JobStage::kRepairing) finish_repair(epoch);
    state->change.reset();
    end(epoch, refused("its job has another version"));
  } else if (stage == Change::Stage::kCalledOff) {
    const std::string why = state->change->why_called_off();
    state->change.reset();
    fail_next(state->next, why);
  }
}

// The ranks use the next version from now on.
void JobVersions::use_next(JobState& state) {
  JobState& running = *jobs_.find(state.next);
  running.stage = JobStage::kRunning;
  jobs_.set_runs(state.next, true);
  running.wanted = std::exchange(state.wanted, Wanted::kNothing);
  jobs_.move_ranks(state);
  answer_returned(state.next, state.change->decision().first);
  state.stage = JobStage::kLeaving;
}

// The next version fails, and the job keeps the version that it has. A repair makes another
// attempt.
void JobVersions::fail_next(std::uint32_t epoch, const std::string& why) {
  const std::uint32_t before = jobs_.record(epoch)->follows;
  JobState* state = jobs_.find(before);
  if (state != nullptr && state->next == epoch) {
    if (state->change) {
      state->change->call_off(why);
      return settle_change(before);
    }
    state->next = 0;
    state->trouble = why;
    if (state->repair) {
      ++state->repair->attempts;
      state->repair->attempt_at.reset();
    }
  }
  end(epoch, refused(why));
}

// -- The end of jobs -------------------------------------------------------------------------

void JobVersions::end(std::uint32_t epoch, const Error& why) {
  JobState* state = jobs_.find(epoch);
  if (state == nullptr) return;
  if (state->stage != JobStage::kOver) {
    end_other_versions(epoch, why);
    state->stage = JobStage::kOver;
    state->repair.reset();
    for (const NodeId node : state->released) state->nodes.erase(node);
    const std::string& name = jobs_.record(epoch)->name;
    const auto returning = std::exchange(state->returning, {});
    for (const auto& [rank, ticket] : returning) {
      state->waiting.erase(ticket);
      jobs_.erase_ticket(ticket);
      answer(ticket, Error{Status::kStaleEpoch, fmt::format("job \"{}\" is over: ask again", name)},
             rank);
    }
    for (const Ticket ticket : std::exchange(state->waiting, {})) {
      jobs_.erase_ticket(ticket);
      answer(ticket, Error{why.status, fmt::format("job \"{}\": {}", name, why.message)}, 0);
    }
    withdraw(epoch, *state);
    if (!state->nodes.empty()) jobs_.set_runs(epoch, false);
  }
  if (state->nodes.empty()) jobs_.erase(epoch);
}

void JobVersions::end_other_versions(std::uint32_t epoch, const Error& why) {
  const JobState& state = *jobs_.find(epoch);
  if (state.stage != JobStage::kRunning && state.stage != JobStage::kRepairing) return;
  if (state.next != 0) fail_next(state.next, why.message);
  const std::uint32_t before = jobs_.record(epoch)->follows;
  JobState* leaving = jobs_.find(before);
  if (leaving == nullptr || leaving->next != epoch) return;
  leaving->change.reset();
  leaving->next = 0;
  end(before, why);
}

// Nodes that have not been sent the assignment do not have it any more.
void JobVersions::withdraw(std::uint32_t epoch, JobState& state) {
  for (const PlanNode& one : jobs_.record(epoch)->nodes) {
    if (!state.nodes.contains(one.node)) continue;
    if (!news_.withdraw(one.node, one.placement)) state.nodes.erase(one.node);
  }
}

std::vector<RankAnswer> JobVersions::take_answers() {
  return std::exchange(answers_, {});
}

std::vector<RankNotification> JobVersions::take_notifications() {
  return std::exchange(notifications_, {});
}

std::vector<RepairEvent> JobVersions::take_repair_events() {
  return std::exchange(repair_events_, {});
}

}  // namespace tally::control
