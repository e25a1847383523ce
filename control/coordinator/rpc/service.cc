#include "control/coordinator/rpc/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log/log.h"
#include "base/text/plain_names.h"
#include "dataplane/wire/notice.h"
#include "net/rpc/fault_json.h"
#include "net/rpc/message.h"
#include "net/rpc/partition_json.h"
#include "net/rpc/rpc_channel.h"

namespace tally::control {
namespace {

using nlohmann::json;

constexpr std::size_t kMostReports = 1024;     // of one request
constexpr std::size_t kMostPlacements = 8192;  // at a node: two versions of each of its jobs
constexpr std::size_t kMostError = 1024;       // bytes
constexpr std::size_t kMostEpochs = 4;         // of a rank that resumes

Error other_version(std::uint64_t version, std::string_view who) {
  return {Status::kUnsupported,
          fmt::format("the {} speaks version {} of the control protocol, this coordinator version "
                      "{}: install matching releases",
                      who, version, rpc::kProtocolVersion)};
}

// Reads one entry of "done" or "over"; none when the entry is not valid.
std::optional<Coordinator::Report> parse_report(const json& entry, bool over) {
  if (!entry.is_object()) return std::nullopt;
  rpc::Params params(entry);
  Coordinator::Report report;
  report.over = over;
  report.placement = params.number("placement", 1, UINT64_MAX);
  if (!over) report.error = params.text_or("error", kMostError, "");
  if (params.finish()) return std::nullopt;
  return report;
}

// Reads the placements that a node has from an earlier membership. False: they are no such list.
bool read_placements(const json& params, std::vector<std::uint64_t>& placements) {
  const json list = params.value("placements", json::array());
  if (!list.is_array() || list.size() > kMostPlacements) return false;
  for (const json& one : list) {
    if (!one.is_number_unsigned()) return false;
    placements.push_back(one.get<std::uint64_t>());
  }
  return true;
}

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

// The request's parameters without these lists, which Params cannot read.
json without(const json& params, std::initializer_list<const char*> lists) {
  json rest = params;
  for (const char* list : lists) rest.erase(list);
  return rest;
}

Error not_the_coordinator() {
  return {Status::kUnavailable,
          "this node is not the coordinator now: ask another one of "
          "cluster.coordinators, or try again in some seconds"};
}

Error bad_rails() {
  return {Status::kInvalidArgument,
          fmt::format("\"rails\" is a list of at most {} {{address, tcp, speed, shards, up}}",
                      kMaxRails)};
}

}  // namespace

CoordinatorService::CoordinatorService(
    CoordinatorServiceOptions options, Store& store, asio::io_context& io,
    std::function<void(rpc::ConnectionId, std::string_view)> disconnect)
    : options_(std::move(options)),
      disconnect_(std::move(disconnect)),
      idle_store_(store),
      store_(&store),
      timer_(io) {
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

// -- Nodes -----------------------------------------------------------------------------------

void CoordinatorService::join(rpc::ConnectionId connection, const rpc::Request& request,
                              rpc::Reply reply) {
  const json rest = without(request.params, {"rails", "placements"});
  rpc::Params params(rest);
  const auto version = params.number("version", 0, UINT32_MAX);
  ReturningNode returning;
  returning.was = params.number_or("was", 1, UINT64_MAX, 0);
  Member member;
  member.name = params.text("name", kMaxJobName);
  member.host = params.text("host", kMaxJobName);
  const std::string role = params.text("role", kMaxJobName);
  member.tcp = params.text_or("tcp", kMaxAddress, "");
  member.local = params.text_or("unix", kMaxAddress, "");
  member.shards = static_cast<std::uint32_t>(params.number("shards", 1, protocol::kMaxTrees));
  member.speed = params.number_or("speed", 0, 1ULL << 50, 0);
  const auto epoch = static_cast<std::uint32_t>(params.number_or("epoch", 0, UINT32_MAX - 1, 0));
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  if (version != rpc::kProtocolVersion) return reply.error(other_version(version, "node"));
  if (member.name.empty() || (role != "worker" && role != "helper")) {
    return reply.error(Status::kInvalidArgument,
                       "a node needs a name, and \"role\" is \"worker\" or \"helper\"");
  }
  if (!is_plain(member.name + member.host + member.tcp + member.local)) {
    return reply.error(Status::kInvalidArgument,
                       "the name, host or address of a node has a control character");
  }
  if (member.tcp.empty() && member.local.empty()) {
    return reply.error(Status::kInvalidArgument,
                       "a node needs an address where clients connect: \"tcp\" or \"unix\"");
  }
  // Otherwise any process that can connect could get a share of other users' jobs, and of their
  // memory.
  if (options_.coordinators.empty() && options_.access->keys().secrets().empty()) {
    return reply.error(Status::kRefused,
                       "this node stands alone: to be a coordinator it needs cluster.coordinators "
                       "(with its own address) or a secret (security.secret_file)");
  }
  if (options_.is_elected && term_ == 0) {
    return reply.error(not_the_coordinator());
  }
  auto rails = parse_rails(request.params.value("rails", json::array()));
  if (!rails) return reply.error(bad_rails());
  member.rails = std::move(*rails);
  member.role = role == "worker" ? Role::kWorker : Role::kHelper;
  Conversation& caller = callers_[connection];
  if (caller.node) {
    return reply.error(Status::kInvalidArgument, "a node has joined on this connection already");
  }
  if (!read_placements(request.params, returning.placements)) {
    return reply.error(
        Status::kInvalidArgument,
        fmt::format("\"placements\" is a list of at most {} numbers", kMostPlacements));
  }
  if (term_ != 0) end_earlier(returning.was, member.name);
  const auto joined = coordinator_->join(member, epoch, monotonic_now(), returning);
  if (!joined) return reply.error(joined.error());
  caller.node = *joined;
  caller.name = member.name;
  by_node_[*joined] = connection;
  log::info("cluster-member", {{"node", member.name},
                               {"role", role},
                               {"host", member.host},
                               {"tcp", member.tcp},
                               {"shards", member.shards},
                               {"rails", member.rails.size()},
                               {"members", store_->members().size()}});
  reply.grant(rpc::Grant::kNode);
  json answer = {{"node", *joined}};
  rpc::put_fault(answer, timeouts().fault);
  reply.result(with_term(std::move(answer)));
  expect(*joined);
}

bool CoordinatorService::take_reports(NodeId node, const json& params) {
  for (const char* key : {"done", "over"}) {
    const json list = params.value(key, json::array());
    if (!list.is_array() || list.size() > kMostReports) return false;
    for (const json& entry : list) {
      const auto report = parse_report(entry, key == std::string_view("over"));
      if (!report) return false;
      coordinator_->report(node, *report);
    }
  }
  return true;
}

void CoordinatorService::next(rpc::ConnectionId connection, const rpc::Request& request,
                              rpc::Reply reply) {
  const json rest = without(request.params, {"done", "over"});
  rpc::Params params(rest);
  const auto hold = params.number_or("wait_ms", 0, kMostHoldMs, kMostHoldMs);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  const auto found = callers_.find(connection);
  if (found == callers_.end() || !found->second.node) {
    return reply.error(Status::kInvalidArgument,
                       "no node has joined on this connection: cluster.join first");
  }
  Conversation& caller = found->second;
  if (caller.news) {
    return reply.error(Status::kInvalidArgument, "cluster.next waits for its answer already");
  }
  if (!take_reports(*caller.node, request.params)) {
    return reply.error(Status::kInvalidArgument,
                       "\"done\" and \"over\" are lists of {placement, error}");
  }
  caller.news = std::move(reply);
  coordinator_->listen(*caller.node, monotonic_now() + static_cast<Nanos>(hold) * kMillisecond);
}

void CoordinatorService::report(const rpc::Request& request, rpc::Reply reply) {
  const json rest = without(request.params, {"done", "over", "rails"});
  rpc::Params params(rest);
  const NodeId node = params.number("node", 1, UINT64_MAX);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  if (const auto known = coordinator_->members().has(node); !known)
    return reply.error(known.error());
  reply.grant(rpc::Grant::kNode);
  if (!take_reports(node, request.params)) {
    return reply.error(Status::kInvalidArgument,
                       "\"done\" and \"over\" are lists of {placement, error}");
  }
  if (request.params.contains("rails")) {
    auto rails = parse_rails(request.params["rails"]);
    if (!rails) return reply.error(bad_rails());
    coordinator_->set_rails(node, std::move(*rails), monotonic_now());
  }
  reply.result(json::object());
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
  const auto actions = coordinator_->act(now);
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
