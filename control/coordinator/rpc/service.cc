#include "control/coordinator/rpc/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log/log.h"
#include "control/coordinator/rpc/request.h"
#include "dataplane/wire/notice.h"
#include "net/rpc/message.h"
#include "net/rpc/partition_json.h"
#include "net/rpc/rpc_channel.h"

namespace tally::control {
namespace {

using nlohmann::json;

constexpr std::size_t kMostEpochs = 4;  // of a rank that resumes

// Reads the versions that a rank has. False: they are no such list.
bool read_epochs(const json& params, std::vector<std::uint32_t>& epochs) {
  const json list = params.value("epochs", json());
  if (!list.is_array() || list.empty() || list.size() > kMostEpochs) return false;
  for (const json& one : list) {
    if (!one.is_number_unsigned() || one.get<std::uint64_t>() > UINT32_MAX) return false;
    epochs.push_back(one.get<std::uint32_t>());
  }
  return true;
}

}  // namespace

CoordinatorService::CoordinatorService(
    CoordinatorServiceOptions options, Store& store, asio::io_context& io,
    std::function<void(rpc::ConnectionId, std::string_view)> disconnect)
    : options_(std::move(options)),
      disconnect_(std::move(disconnect)),
      idle_store_(store),
      store_(&store),
      timer_(io),
      io_(io) {
  options_.coordinator.plans_racks = static_cast<bool>(options_.plan_for_racks);
  act_over(store, 0);
}

void CoordinatorService::handle(rpc::ConnectionId connection, const rpc::Request& request,
                                rpc::Reply reply) {
  reply.go_through(gate(connection));
  const std::string& method = request.method;
  if (method == "cluster.join") {
    join(connection, request, std::move(reply));
  } else if (method == "cluster.next") {
    next(connection, request, std::move(reply));
  } else if (method == "cluster.report") {
    report(request, std::move(reply));
  } else if (method == "cluster.nodes") {
    return nodes(request, std::move(reply));
  } else if (method == "cluster.jobs") {
    return jobs(connection, request, std::move(reply));
  } else if (method == "cluster.coordinator") {
    return coordinator_status(request, std::move(reply));
  } else if (method == "job.open" || method == "job.resume") {
    open(connection, request, std::move(reply));
  } else if (method == "job.next") {
    next_message(connection, request, std::move(reply));
  } else if (method == "job.report") {
    report_of_rank(connection, request, std::move(reply));
  } else if (method == "job.leave") {
    leave(connection, request, std::move(reply));
  } else if (method == "cluster.drain") {
    drain(request, std::move(reply));
  } else if (method.starts_with("plan.")) {
    if (const auto may = may_show_plan(connection, request); !may) {
      options_.access->audit(options_.peer_of(connection), method, may.error());
      return reply.error(may.error());
    }
    if (options_.is_elected && term_ == 0) return reply.error(not_the_coordinator());
    plans_->handle(connection, request, std::move(reply));
  } else {
    return reply.unknown_method(method);
  }
  act();
}

void CoordinatorService::closed(rpc::ConnectionId connection) {
  plans_->closed(connection);
  const auto found = callers_.find(connection);
  if (found == callers_.end()) return;
  const Conversation caller = std::move(found->second);
  callers_.erase(found);
  waits_.erase({caller.asks_until, connection});
  if (caller.node) {
    by_node_.erase(*caller.node);
    constexpr const char* kWhy = "its connection to the coordinator ended";
    log::warning("cluster-left", {{"node", caller.name}, {"why", kWhy}});
    if (term_ != 0) {
      coordinator_->await(*caller.node, monotonic_now());
      expect(*caller.node);
    } else {
      coordinator_->leave(*caller.node, kWhy);
    }
  }
  if (caller.ticket != 0) {
    by_ticket_.erase(caller.ticket);
    lose_rank(caller.ticket);
  }
  act();
}

// -- Ranks -----------------------------------------------------------------------------------

void CoordinatorService::open(rpc::ConnectionId connection, const rpc::Request& request,
                              rpc::Reply reply) {
  const json rest = without(request.params, {"epochs", "on_rank_loss", "quorum"});
  rpc::Params params(rest);
  const auto version = params.number("version", 0, UINT32_MAX);
  Coordinator::Opening opening;
  opening.job = params.text("job", kMaxJobName);
  const std::string token = params.text_or("token", kMaxToken, "");
  opening.ranks = static_cast<std::uint32_t>(params.number("ranks", 1, wire::kMaxRanks));
  opening.rank = static_cast<std::uint32_t>(params.number("rank", 0, wire::kMaxRanks - 1));
  opening.host = params.text_or("host", kMaxJobName, "");
  const rpc::Peer peer = options_.peer_of(connection);
  opening.owner = peer.source;
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  if (version != rpc::kProtocolVersion) return reply.error(other_version(version, "client"));
  const auto policy = find_policy(request.params, opening.ranks);
  if (!policy) {
    return reply.error(Status::kInvalidArgument,
                       R"("on_rank_loss" is "fail" or "finish", "quorum" at most "ranks")");
  }
  opening.rank_loss = *policy;
  const bool resumes = request.method == "job.resume";
  std::vector<std::uint32_t> epochs;
  if (resumes != read_epochs(request.params, epochs)) {
    return reply.error(
        Status::kInvalidArgument,
        fmt::format("\"epochs\" of job.resume is a list of 1 to {} versions", kMostEpochs));
  }
  if (opening.rank >= opening.ranks) {
    return reply.error(Status::kInvalidArgument,
                       fmt::format("rank {}: must be below ranks {}", opening.rank, opening.ranks));
  }
  // On a node of a cluster, the answer "no nodes" would make a job of this node alone.
  if (store_->members().empty() && !options_.coordinators.empty()) {
    return reply.error(Status::kUnavailable,
                       fmt::format("this node belongs to a cluster and no node has joined here: "
                                   "ask its coordinator, {}, or try again when they have",
                                   options_.coordinators));
  }
  auto caller_of_rank = options_.access->caller(peer, token);
  if (caller_of_rank) opening.caller = std::move(*caller_of_rank);
  const Outcome unlocked = caller_of_rank ? coordinator_->unlocks(opening) : caller_of_rank.error();
  if (!unlocked) {
    options_.access->audit(peer, request.method, unlocked.error());
    return reply.error(unlocked.error());
  }
  Conversation& caller = callers_[connection];
  if (caller.opens) {
    return reply.error(Status::kInvalidArgument, request.method + " waits for its answer already");
  }
  if (caller.ticket != 0) {  // a rank that opens again gives up its earlier place
    by_ticket_.erase(caller.ticket);
    coordinator_->close(caller.ticket);
    caller.messages.clear();
  }
  caller.ticket = ++last_ticket_;
  caller.opens = std::move(reply);
  by_ticket_[caller.ticket] = connection;
  if (resumes) {
    coordinator_->resume(caller.ticket, opening, epochs);
  } else {
    coordinator_->open(caller.ticket, opening, monotonic_now());
  }
  if (coordinator_->jobs().has_place(caller.ticket)) caller.opens->grant(rpc::Grant::kRank);
}

// -- Messages to send ------------------------------------------------------------------------

void CoordinatorService::send_news(const Coordinator::News& news) {
  const auto connection = by_node_.find(news.node);
  if (connection == by_node_.end()) return;
  Conversation& caller = callers_.at(connection->second);
  if (!caller.news) return;
  json placements = json::array();
  for (const JobAssignment& one : news.placements) {
    for (const std::string& machine : one.stands_in_for) {
      log::info("substitute",
                {{"job", one.job}, {"epoch", one.epoch}, {"node", caller.name}, {"for", machine}});
    }
    placements.push_back(to_json(one));
  }
  json withdraw = json::array();
  for (const std::uint64_t one : news.withdraw) withdraw.push_back({{"placement", one}});
  rpc::Reply reply = std::move(*std::exchange(caller.news, std::nullopt));
  reply.result(
      with_term({{"placements", std::move(placements)}, {"withdraw", std::move(withdraw)}}));
  expect(news.node);
}

// When the store is lost, the state of an answer may not be stored. So the service disconnects the
// client, which must then find the current coordinator.
rpc::Gate CoordinatorService::gate(rpc::ConnectionId connection) {
  return [this, connection](std::function<void()> send) {
    store_->when_settled(
        [connection, disconnect = disconnect_, send = std::move(send)](const Outcome& settled) {
          if (settled) return send();
          disconnect(connection, settled.error().message);
        });
  };
}

void CoordinatorService::act() {
  const Nanos now = monotonic_now();
  auto actions = coordinator_->act(now);
  for (const std::string& name : actions.silent) log::warning("cluster-silent", {{"node", name}});
  for (const NodeId node : actions.lost) {
    const auto found = by_node_.find(node);
    if (found == by_node_.end()) continue;
    Conversation& caller = callers_.at(found->second);
    constexpr const char* kWhy = "it has not asked for news for too long";
    log::warning("cluster-left", {{"node", caller.name}, {"why", kWhy}});
    caller.node.reset();
    disconnect_(found->second, "a node that has not asked for news for too long");
    by_node_.erase(found);
  }
  for (const auto& news : actions.news) send_news(news);
  for (const auto& answer : actions.answers) {
    if (answer.outcome && !(*answer.outcome)->nodes.empty()) {
      const JobRecord& job = **answer.outcome;
      log::debug("job-open", {{"job", job.name}, {"epoch", job.epoch}});
    }
    answer_rank(answer);
  }
  for (const auto& notification : actions.notifications) notify_rank(notification);
  for (const auto& event : actions.repairs) log_repair(event, now);
  if (actions.plan) make_plan(std::move(*actions.plan));
  end_waits(now);
  set_timer(now);
}

void CoordinatorService::set_timer(Nanos now) {
  const Nanos next =
      std::min(coordinator_->next_deadline(), waits_.empty() ? kForever : waits_.begin()->first);
  if (next == kForever) {
    timer_.cancel();
    return;
  }
  // When the timer's clock is a little ahead, the timer would fire before the deadline.
  timer_.expires_after(std::chrono::nanoseconds(std::max<Nanos>(next - now, kMillisecond)));
  timer_.async_wait([this](const std::error_code& error) {
    if (!error) act();
  });
}

}  // namespace tally::control
