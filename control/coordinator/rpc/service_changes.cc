// Methods for ranks whose job's plan changes, and for a client that drains a node.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/log/log.h"
#include "control/coordinator/rpc/service.h"

namespace tally::control {
namespace {

using nlohmann::json;

constexpr std::size_t kMostTags = 1 << 17;  // of a rank
constexpr std::size_t kMostWhy = 1024;

constexpr std::array<const char*, 5> kWords = {"prepare", "decided", "go", "leave", "called off"};
constexpr std::array<const char*, 4> kReports = {"ready", "knows", "moved", "left"};

// Adds the pairs of a list of [tag, round]. Returns false when it is no such list, or too long.
bool read_rounds(const json& list, Rounds& rounds) {
  if (!list.is_array()) return false;
  for (const json& one : list) {
    const bool pair = one.is_array() && one.size() == 2 && one[0].is_number_unsigned() &&
                      one[1].is_number_unsigned() && one[0].get<std::uint64_t>() <= UINT32_MAX &&
                      one[1].get<std::uint64_t>() <= UINT32_MAX;
    if (!pair || rounds.size() >= kMostTags) return false;
    rounds[one[0].get<std::uint32_t>()] = one[1].get<std::uint32_t>();
  }
  return true;
}

}  // namespace

void CoordinatorService::next_message(rpc::ConnectionId connection, const rpc::Request& request,
                                      rpc::Reply reply) {
  rpc::Params params(request.params);
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
  coordinator_->listen(caller.ticket);
  send_next_message(caller);
}

void CoordinatorService::report_of_rank(rpc::ConnectionId connection, const rpc::Request& request,
                                        rpc::Reply reply) {
  json rest = request.params;
  rest.erase("rounds");
  rpc::Params params(rest);
  const auto epoch = static_cast<std::uint32_t>(params.number("epoch", 1, UINT32_MAX));
  const std::string report = params.text("said", kMaxJobName);
  const std::string why = params.text_or("why", kMostWhy, "");
  const bool more = params.flag_or("more", false);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  const auto found = callers_.find(connection);
  if (found == callers_.end() || found->second.ticket == 0) {
    return reply.error(Status::kInvalidArgument,
                       "no rank has a place by this connection: job.open first");
  }
  Conversation& caller = found->second;
  const bool is_changing = coordinator_->jobs().changing(caller.ticket, epoch).has_value();
  if (!is_changing) caller.rounds.clear();  // no change waits for them, so they are not kept
  if (is_changing && !read_rounds(request.params.value("rounds", json::array()), caller.rounds)) {
    caller.rounds.clear();
    coordinator_->call_off_change(caller.ticket, epoch, "its tags cannot be read, or are too many");
    return reply.error(
        Status::kInvalidArgument,
        fmt::format("\"rounds\" is a list of [tag, round], at most {} in all", kMostTags));
  }
  if (more) return reply.result(json::object());
  const Rounds rounds = std::exchange(caller.rounds, {});
  const auto* which = std::find(kReports.begin(), kReports.end(), report);
  if (report == "cannot") {
    coordinator_->call_off_change(caller.ticket, epoch, why);
  } else if (which != kReports.end()) {
    coordinator_->report_change(caller.ticket, epoch,
                                static_cast<Change::Report>(which - kReports.begin()), rounds);
  } else {
    return reply.error(Status::kInvalidArgument,
                       R"("said" is "ready", "knows", "moved", "left" or "cannot")");
  }
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
  const char* word = kWords[static_cast<std::size_t>(notification.word)];
  if (notification.rank == 0) {  // log once for all ranks
    log::info("plan-change", {{"epoch", notification.epoch},
                              {"stage", word},
                              {"why", notification.why.empty() ? "-" : notification.why}});
  }
  const auto connection = by_ticket_.find(notification.ticket);
  if (connection == by_ticket_.end()) return;
  json message = json::object();
  if (notification.word == Change::Word::kPrepare)
    message = opened(*notification.version, notification.rank);
  message["change"] = word;
  message["epoch"] = notification.epoch;
  for (const auto& [tag, round] : notification.rounds) {
    message["first"].push_back(json::array({tag, round}));
  }
  if (!notification.why.empty()) message["why"] = notification.why;
  Conversation& caller = callers_.at(connection->second);
  caller.messages.push_back(with_term(std::move(message)));
  send_next_message(caller);
}

void CoordinatorService::send_next_message(Conversation& caller) {
  if (!caller.asks || caller.messages.empty()) return;
  rpc::Reply reply = std::move(*std::exchange(caller.asks, std::nullopt));
  json message = std::move(caller.messages.front());
  caller.messages.pop_front();
  reply.result(std::move(message));
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
