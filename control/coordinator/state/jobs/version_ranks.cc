// How a job whose policy is "finish" goes on without ranks that it has lost, and takes ranks back
// (job_versions.h).
#include <fmt/format.h>

#include <algorithm>

#include "control/coordinator/state/jobs/job_versions.h"

namespace tally::control {

// The next version leaves these ranks out. when_needed: it begins when a rank misses them, because
// ranks that close their sessions may all be about to do so. A version that was under way for
// another reason has a place for them, and is called off. False: the policy of the job, or its
// quorum, does not allow that, or ranks are there that cannot be repaired. Nothing has changed
// then.
bool JobVersions::leave_out(std::uint32_t epoch, const RankNumbers& lost, const std::string& why,
                            bool when_needed) {
  JobState& state = *jobs_.find(epoch);
  const JobRecord& job = *jobs_.record(epoch);
  RankNumbers absent = state.absent;
  absent.insert(lost.begin(), lost.end());
  if (!job.rank_loss.may_go_on(job.ranks - absent.size())) return false;
  std::swap(state.absent, absent);
  bool goes_on = true;
  if (state.stage == JobStage::kRepairing) {
    // An attempt that counts on these ranks begins anew, at once.
    if (state.next != 0) fail_next(state.next, why);
    state.repair->attempt_at = 0;
  } else if (!when_needed) {
    goes_on = begin_repair(epoch, why);
  } else {
    goes_on = jobs_.is_repairable(state);
    if (goes_on && state.next != 0) {
      want_again(state);
      fail_next(state.next, why);
    }
  }
  if (!goes_on) {
    std::swap(state.absent, absent);
    return false;
  }
  std::erase_if(state.missing, [&lost](const Departure& one) { return lost.contains(one.rank); });
  return true;
}

// A rank whose session at a node and whose connection to this coordinator have both ended is gone:
// nobody waits for it to come back. A rank that has not come to this coordinator yet is not: nodes
// blame ranks that have fenced them. A rank that is late loses its place, although it is alive.
void JobVersions::leave_out_blamed(std::uint32_t epoch, const RankReport& report) {
  JobState& state = *jobs_.find(epoch);
  if (!jobs_.record(epoch)->rank_loss.finishes) return;
  const auto is_of_job = [&state](const std::optional<std::uint32_t>& rank) {
    return rank && *rank < state.by_rank.size() && !state.absent.contains(*rank);
  };
  if (is_of_job(report.lost_rank)) {
    const std::uint32_t rank = *report.lost_rank;
    if (state.repair) state.repair->blamed.insert(rank);
    if (state.is_missing(rank)) leave_out(epoch, {rank}, report.why);
  }
  if (!is_of_job(report.late_rank)) return;
  const std::uint32_t rank = *report.late_rank;
  if (dismiss(epoch, {rank}, report.why, "was late") || state.departed) return;
  state.departed = {rank, "has not announced an operation by its deadline"};
}

// Ranks lose their places, although they may be alive. Returns what leave_out() returns.
bool JobVersions::dismiss(std::uint32_t epoch, const RankNumbers& ranks, const std::string& why,
                          std::string_view how) {
  const std::vector<Ticket> tickets = jobs_.find(epoch)->by_rank;
  if (!leave_out(epoch, ranks, why)) return false;
  for (const std::uint32_t rank : ranks) {
    if (tickets[rank] == 0) continue;
    jobs_.erase_ticket(tickets[rank]);
    lose_rank(epoch, tickets[rank]);
    notify_ended(tickets[rank], epoch,
                 fmt::format("the job goes on without this rank, which {}", how), rank);
  }
  return true;
}

// A repair interrupts operations, so that no deadline of an operation ends the wait for a rank that
// is stopped. Half of the time of a repair is left for the attempt without it.
void JobVersions::dismiss_silent(std::uint32_t epoch, Nanos now) {
  JobState* state = jobs_.find(epoch);
  if (state == nullptr || !state->repair || !state->change) return;
  if (now < state->repair->answer_until) return;
  state->repair->answer_until = kForever;
  const auto silent = state->change->waits_for();
  dismiss(epoch, {silent.begin(), silent.end()},
          fmt::format("{} did not answer the repair within {} s", name_ranks(silent),
                      timeouts_.change() / kSecond),
          "did not answer a repair");
}

void JobVersions::come_back(Ticket ticket, std::uint32_t epoch, std::uint32_t rank,
                            const std::string& host) {
  jobs_.await_place(ticket, epoch, rank, host);
  jobs_.listen(ticket, true);
  JobState& state = *jobs_.find(epoch);
  // The version has had a place for the rank, and ends at its nodes because the rank has left it.
  const bool is_ending = !jobs_.record(epoch)->left_out.contains(rank);
  if (is_ending)
    begin_repair(epoch, fmt::format("rank {} has left, and opens the job again", rank));
  state.wanted = std::max(state.wanted, Wanted::kOwnPlan);
}

// A rank that was about to return has gone again. The next version may have a place for it.
void JobVersions::forget_returning(std::uint32_t epoch, Ticket ticket) {
  JobState& state = *jobs_.find(epoch);
  state.waiting.erase(ticket);
  const auto found =
      std::find_if(state.returning.begin(), state.returning.end(),
                   [ticket](const auto& returning) { return returning.second == ticket; });
  if (found == state.returning.end()) return;
  const std::uint32_t rank = found->first;
  state.returning.erase(found);
  const bool is_expected = state.next != 0 && !jobs_.record(state.next)->left_out.contains(rank);
  if (!is_expected) return;
  want_again(state);
  fail_next(state.next, fmt::format("rank {}, which was about to return, has gone", rank));
}

void JobVersions::answer_returned(std::uint32_t epoch, const Rounds& first) {
  JobState& state = *jobs_.find(epoch);
  for (std::uint32_t rank = 0; rank < state.by_rank.size(); ++rank) {
    const Ticket ticket = state.by_rank[rank];
    if (ticket == 0 || state.waiting.erase(ticket) == 0) continue;
    answers_.push_back({ticket, jobs_.record(epoch), rank, first});
  }
}

}  // namespace tally::control
