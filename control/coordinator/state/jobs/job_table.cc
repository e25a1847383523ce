#include "control/coordinator/state/jobs/job_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace tally::control {

bool JobState::is_alive() const {
  return stage == JobStage::kGathering || stage == JobStage::kPlacing ||
         stage == JobStage::kRunning || stage == JobStage::kRepairing;
}

std::optional<std::uint32_t> JobState::rank_of(Ticket ticket) const {
  const auto place = std::find(by_rank.begin(), by_rank.end(), ticket);
  if (ticket == 0 || place == by_rank.end()) return std::nullopt;
  return static_cast<std::uint32_t>(place - by_rank.begin());
}

bool JobState::is_missing(std::uint32_t rank) const {
  return std::any_of(missing.begin(), missing.end(),
                     [rank](const Departure& one) { return one.rank == rank; });
}

std::vector<std::uint32_t> JobState::missing_ranks() const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < by_rank.size(); ++rank) {
    if (by_rank[rank] == 0 && !absent.contains(rank)) ranks.push_back(rank);
  }
  return ranks;
}

RankNumbers JobState::still_absent() const {
  RankNumbers ranks = absent;
  for (const auto& [rank, ticket] : returning) ranks.erase(rank);
  return ranks;
}

JobTable::JobTable(Store& store, Nanos resume_until) : store_(store) {
  for (const auto& [epoch, job] : JobsByEpoch(store_.jobs())) {
    if (job->runs && !job->nodes.empty()) {
      take_over(*job, resume_until);
    } else {
      store_.erase_job(epoch);
    }
  }
}

void JobTable::take_over(const JobRecord& job, Nanos resume_until) {
  JobState& state = states_[job.epoch];
  state.stage = JobStage::kRunning;
  state.resume_until = resume_until;
  state.by_rank.assign(job.ranks, 0);
  state.hosts.resize(job.ranks);
  state.absent = job.left_out;
  for (const PlanNode& one : job.nodes) state.nodes.insert(one.node);
  // Epochs rise, so the version before this one is known already.
  JobState* before = find(job.follows);
  if (before == nullptr) return;
  before->stage = JobStage::kLeaving;
  before->next = job.epoch;
  before->change = Change::taken_over(job.ranks, before->absent);
}

void JobTable::set_runs(std::uint32_t epoch, bool runs) {
  if (record(epoch)->runs == runs) return;
  JobRecord job = *record(epoch);
  job.runs = runs;
  update(std::move(job));
}

JobState& JobTable::add(JobRecord record) {
  JobState& state = states_[record.epoch];
  state.by_rank.assign(record.ranks, 0);
  state.hosts.resize(record.ranks);
  state.absent = record.left_out;
  update(std::move(record));
  return state;
}

void JobTable::update(JobRecord record) {
  store_.put(std::make_shared<const JobRecord>(std::move(record)));
}

void JobTable::erase(std::uint32_t epoch) {
  const JobState* state = find(epoch);
  const auto departed = state != nullptr ? state->departed : std::nullopt;
  std::erase_if(places_, [&](const auto& place) {
    if (place.second == epoch && departed) departed_.emplace(place.first, *departed);
    return place.second == epoch;
  });
  states_.erase(epoch);
  store_.erase_job(epoch);
}

JobState* JobTable::find(std::uint32_t epoch) {
  const auto found = states_.find(epoch);
  return found == states_.end() ? nullptr : &found->second;
}

const JobState* JobTable::find(std::uint32_t epoch) const {
  const auto found = states_.find(epoch);
  return found == states_.end() ? nullptr : &found->second;
}

const JobRecord* JobTable::current(const std::string& name) const {
  for (const auto& [epoch, state] : states_) {
    if (state.is_alive() && record(epoch)->name == name) return record(epoch).get();
  }
  return nullptr;
}

std::size_t JobTable::alive() const {
  return static_cast<std::size_t>(std::count_if(
      states_.begin(), states_.end(), [](const auto& one) { return one.second.is_alive(); }));
}

std::optional<std::uint32_t> JobTable::placed_at(NodeId node, std::uint64_t placement) const {
  for (const auto& [epoch, state] : states_) {
    if (!state.nodes.contains(node)) continue;
    const auto& nodes = record(epoch)->nodes;
    const bool here = std::any_of(nodes.begin(), nodes.end(), [&](const PlanNode& one) {
      return one.node == node && one.placement == placement;
    });
    if (here) return epoch;
  }
  return std::nullopt;
}

NodeLoad JobTable::load_of(NodeId node) const {
  NodeLoad load;
  for (const auto& [epoch, state] : states_) {
    if (state.stage == JobStage::kOver) continue;
    if (state.nodes.contains(node)) ++load.jobs;
    for (const PlanNode& one : record(epoch)->nodes) {
      if (one.node != node) continue;
      load.trees += one.trees.size();
      if (state.stage == JobStage::kLeaving) continue;
      load.stands_in_for.insert(one.stands_in_for.begin(), one.stands_in_for.end());
    }
  }
  return load;
}

void JobTable::take_place(Ticket ticket, std::uint32_t epoch, std::uint32_t rank,
                          const std::string& host) {
  JobState& state = states_.at(epoch);
  state.by_rank[rank] = ticket;
  state.hosts[rank] = host;
  places_[ticket] = epoch;
}

void JobTable::await_place(Ticket ticket, std::uint32_t epoch, std::uint32_t rank,
                           const std::string& host) {
  JobState& state = states_.at(epoch);
  state.returning[rank] = ticket;
  state.waiting.insert(ticket);
  state.hosts[rank] = host;
  places_[ticket] = epoch;
}

std::optional<std::uint32_t> JobTable::version_of(Ticket ticket) const {
  const auto found = places_.find(ticket);
  return found == places_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::uint32_t> JobTable::erase_ticket(Ticket ticket) {
  const auto epoch = version_of(ticket);
  listening_.erase(ticket);
  departed_.erase(ticket);
  places_.erase(ticket);
  return epoch;
}

const Departure* JobTable::departed_from(Ticket ticket) const {
  const auto erased = departed_.find(ticket);
  if (erased != departed_.end()) return &erased->second;
  const auto epoch = version_of(ticket);
  const JobState* state = epoch ? find(*epoch) : nullptr;
  return state != nullptr && state->departed ? &*state->departed : nullptr;
}

void JobTable::move_ranks(JobState& from) {
  JobState& next = states_.at(from.next);
  next.by_rank = from.by_rank;
  next.hosts = from.hosts;
  for (const Ticket ticket : from.by_rank) {
    if (ticket != 0) places_[ticket] = from.next;
  }
  for (const auto& [rank, ticket] : std::exchange(from.returning, {})) {
    from.waiting.erase(ticket);
    if (next.absent.contains(rank)) {
      await_place(ticket, from.next, rank, from.hosts[rank]);
    } else {
      take_place(ticket, from.next, rank, from.hosts[rank]);
      next.waiting.insert(ticket);
    }
  }
}

void JobTable::listen(Ticket ticket, bool repairs) {
  if (has_place(ticket)) listening_[ticket] = repairs;
}

std::vector<std::uint32_t> JobTable::ranks_not_listening(const JobState& state,
                                                         bool repairs) const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < state.by_rank.size(); ++rank) {
    if (state.absent.contains(rank)) continue;
    const auto found = listening_.find(state.by_rank[rank]);
    if (found == listening_.end() || (repairs && !found->second)) ranks.push_back(rank);
  }
  return ranks;
}

bool JobTable::is_repairable(const JobState& state) const {
  return !state.departed && (state.resume_until != 0 || ranks_not_listening(state, true).empty());
}

std::optional<JobTable::ChangingRank> JobTable::changing(Ticket ticket, std::uint32_t epoch) const {
  if (!states_.contains(epoch)) return std::nullopt;
  const std::uint32_t before = record(epoch)->follows;
  const JobState* from = find(before);
  if (from == nullptr || from->next != epoch || !from->change) return std::nullopt;
  const auto rank = from->rank_of(ticket);
  if (!rank) return std::nullopt;
  return ChangingRank{before, *rank};
}

std::string name_nodes(const JobRecord& job, const std::set<NodeId>& nodes) {
  std::string text;
  for (const PlanNode& one : job.nodes) {
    if (!nodes.contains(one.node)) continue;
    text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", one.member.name);
  }
  return text;
}

}  // namespace tally::control
