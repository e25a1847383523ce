// Methods for ranks whose job's plan changes, and for a client that drains a node.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/log/log.h"
#include "control/coordinator/rpc/rank_message.h"
#include "control/coordinator/rpc/service.h"
#include "dataplane/wire/notice.h"

namespace tally::control {
namespace {

using nlohmann::json;

constexpr std::size_t kMostTags = 1 << 17;  // of a rank
constexpr std::size_t kMostWhy = 1024;

constexpr std::array<const char*, 6> kReports = {"ready", "knows",  "moved",
                                                 "left",  "cannot", "lost"};
constexpr std::array<const char*, 3> kLists = {"rounds", "failed", "kept"};

bool is_at_most(const json& value, std::uint64_t most) {
  return value.is_number_unsigned() && value.get<std::uint64_t>() <= most;
}

// Adds the pairs of a list of [tag, round]. Returns false when it is no such list, or too long.
bool read_next(const json& list, Rounds& rounds) {
  if (!list.is_array()) return false;
  for (const json& one : list) {
    const bool pair = one.is_array() && one.size() == 2 && is_at_most(one[0], UINT32_MAX) &&
                      is_at_most(one[1], UINT32_MAX);
    if (!pair || rounds.size() >= kMostTags) return false;
    rounds[one[0].get<std::uint32_t>()] = one[1].get<std::uint32_t>();
  }
  return true;
}

// The same of [tag, status, culprit, succeeded].
bool read_failed(const json& list, RoundFailures& failed) {
  if (!list.is_array()) return false;
  for (const json& one : list) {
    const bool fine = one.is_array() && one.size() == 4 && is_at_most(one[0], UINT32_MAX) &&
                      is_at_most(one[1], kStatusCount - 1) && one[1] != 0 &&
                      is_at_most(one[2], UINT16_MAX) && is_at_most(one[3], UINT32_MAX);
    if (!fine || failed.size() >= kMostTags) return false;
    failed[one[0].get<std::uint32_t>()] = {static_cast<Status>(one[1].get<std::uint16_t>()),
                                           one[2].get<std::uint16_t>(),
                                           one[3].get<std::uint32_t>()};
  }
  return true;
}

// The same of tags.
bool read_kept(const json& list, std::set<std::uint32_t>& kept) {
  if (!list.is_array()) return false;
  for (const json& one : list) {
    if (!is_at_most(one, UINT32_MAX) || kept.size() >= kMostTags) return false;
    kept.insert(one.get<std::uint32_t>());
  }
  return true;
}

std::optional<std::uint32_t> rank_or_none(std::uint64_t rank) {
  if (rank == wire::kNoRank) return std::nullopt;
  return static_cast<std::uint32_t>(rank);
}

bool read_rounds(const json& params, RankRounds& rounds) {
  const auto list = [&params](const char* name) { return params.value(name, json::array()); };
  return read_next(list("rounds"), rounds.next) && read_failed(list("failed"), rounds.failed) &&
         read_kept(list("kept"), rounds.kept);
}

}  // namespace

void CoordinatorService::next_message(rpc::ConnectionId connection, const rpc::Request& request,
                                      rpc::Reply reply) {
  rpc::Params params(request.params);
  const bool repairs = params.flag_or("repairs", false);
  const auto hold = params.number_or("wait_ms", 0, kMostHoldMs, 0);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  const auto found = callers_.find(connection);
  if (found == callers_.end() || found->second.ticket == 0 || found->second.opens) {
    return reply.error(Status::kInvalidArgument,
                       "no rank has a place by this connection: job.open first");
  }
  Conversation& caller = found->second;
  if (caller.asks) {
    return reply.error(Status::kInvalidArgument, "job.next waits for its answer already");
  }
  caller.asks = std::move(reply);
  waits_.erase({caller.asks_until, connection});
  caller.asks_until = kForever;
  if (hold > 0) {
    caller.asks_until = monotonic_now() + static_cast<Nanos>(hold) * kMillisecond;
    waits_.emplace(caller.asks_until, connection);
  }
  coordinator_->listen(caller.ticket, repairs);
  send_next_message(caller);
}

void CoordinatorService::report_of_rank(rpc::ConnectionId connection, const rpc::Request& request,
                                        rpc::Reply reply) {
  json rest = request.params;
  for (const char* list : kLists) rest.erase(list);
  rpc::Params params(rest);
  const auto epoch = static_cast<std::uint32_t>(params.number("epoch", 1, UINT32_MAX));
  const std::string what = params.text("said", kMaxJobName);
  const std::string why = params.text_or("why", kMostWhy, "");
  const auto lost_rank = params.number_or("lost_rank", 0, wire::kMaxRanks - 1, wire::kNoRank);
  const auto late_rank = params.number_or("late_rank", 0, wire::kMaxRanks - 1, wire::kNoRank);
  const bool more = params.flag_or("more", false);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  const auto found = callers_.find(connection);
  if (found == callers_.end() || found->second.ticket == 0) {
    return reply.error(Status::kInvalidArgument,
                       "no rank has a place by this connection: job.open first");
  }
  Conversation& caller = found->second;
  const bool is_changing = coordinator_->jobs().changing(caller.ticket, epoch).has_value();
  if (!is_changing) caller.rounds = {};  // no change waits for them, so they are not kept
  if (is_changing && !read_rounds(request.params, caller.rounds)) {
    caller.rounds = {};
    coordinator_->report(caller.ticket, epoch,
                         {Change::Report::kCannot, {}, "its tags cannot be read, or are too many"});
    return reply.error(
        Status::kInvalidArgument,
        fmt::format("\"rounds\" is a list of [tag, round], \"failed\" of [tag, status, culprit, "
                    "succeeded], \"kept\" of tags, at most {} each",
                    kMostTags));
  }
  if (more) return reply.result(json::object());
  RankRounds rounds = std::exchange(caller.rounds, {});
  const auto* which = std::find(kReports.begin(), kReports.end(), what);
  if (which == kReports.end()) {
    return reply.error(Status::kInvalidArgument,
                       R"("said" is "ready", "knows", "moved", "left", "cannot" or "lost")");
  }
  coordinator_->report(caller.ticket, epoch,
                       {static_cast<Change::Report>(which - kReports.begin()), std::move(rounds),
                        why, rank_or_none(lost_rank), rank_or_none(late_rank)});
  reply.result(json::object());
}

void CoordinatorService::leave(rpc::ConnectionId connection, const rpc::Request& request,
                               rpc::Reply reply) {
  rpc::Params params(request.params);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  if (const auto found = callers_.find(connection); found != callers_.end()) {
    by_ticket_.erase(found->second.ticket);
    coordinator_->close(std::exchange(found->second.ticket, 0));
  }
  reply.revoke(rpc::Grant::kRank);
  reply.result(json::object());
}

void CoordinatorService::notify_rank(const Coordinator::Notification& notification) {
  const bool is_change = notification.word != Change::Word::kEnded;
  if (is_change && notification.rank == 0) {  // log once for all ranks
    log::info("plan-change", {{"epoch", notification.epoch},
                              {"stage", word_text(notification.word)},
                              {"why", notification.why.empty() ? "-" : notification.why}});
  }
  const auto connection = by_ticket_.find(notification.ticket);
  if (connection == by_ticket_.end()) return;
  json message = json::object();
  if (notification.word == Change::Word::kPrepare)
    message = opened(*notification.version, notification.rank);
  put_notification(message, notification);
  Conversation& caller = callers_.at(connection->second);
  caller.messages.push_back(with_term(std::move(message)));
  send_next_message(caller);
}

void CoordinatorService::log_repair(const RepairEvent& event, Nanos now) {
  if (!event.has_ended) {
    log::warning("repair", {{"job", event.job}, {"epoch", event.epoch}, {"why", event.why}});
    return;
  }
  const Nanos took = event.since == 0 ? 0 : now - event.since;
  const auto ms = took / kMillisecond;
  if (event.repaired_by != 0) {
    log::info("repaired", {{"job", event.job}, {"epoch", event.repaired_by}, {"ms", ms}});
  } else {
    log::warning("not-repaired",
                 {{"job", event.job}, {"epoch", event.epoch}, {"ms", ms}, {"why", event.why}});
  }
}

void CoordinatorService::send_next_message(Conversation& caller) {
  if (!caller.asks || caller.messages.empty()) return;
  rpc::Reply reply = std::move(*std::exchange(caller.asks, std::nullopt));
  json message = std::move(caller.messages.front());
  caller.messages.pop_front();
  reply.result(std::move(message));
}

// Answers the ranks whose waits are over, so that they know that this coordinator acts.
void CoordinatorService::end_waits(Nanos now) {
  while (!waits_.empty() && waits_.begin()->first <= now) {
    const auto [until, connection] = waits_.extract(waits_.begin()).value();
    const auto caller = callers_.find(connection);
    if (caller == callers_.end() || !caller->second.asks) continue;
    if (caller->second.asks_until != until) continue;  // a later request
    rpc::Reply reply = std::move(*std::exchange(caller->second.asks, std::nullopt));
    reply.result(with_term(json::object()));
  }
}

void CoordinatorService::drain(const rpc::Request& request, rpc::Reply reply) {
  rpc::Params params(request.params);
  const std::string node = params.text("node", kMaxJobName);
  const bool undo = params.flag_or("undo", false);
  const bool look = params.flag_or("look", false);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  if (!look) {
    if (const auto done = coordinator_->drain(node, undo, monotonic_now()); !done) {
      return reply.error(done.error());
    }
    log::info("cluster-drain", {{"node", node}, {"draining", !undo}});
  }
  const auto drained = coordinator_->drained(node);
  if (!drained) return reply.error(drained.error());
  json waiting = json::array();
  for (const auto& one : drained->waiting) {
    waiting.push_back({{"job", one.job}, {"what", one.what}, {"gave_up", one.gave_up}});
  }
  reply.result({{"node", node}, {"draining", drained->draining}, {"waiting", std::move(waiting)}});
}

}  // namespace tally::control
