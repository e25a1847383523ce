// The coordinator's methods for nodes: they join, ask for news, and report.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log/log.h"
#include "base/text/plain_names.h"
#include "control/coordinator/rpc/request.h"
#include "control/coordinator/rpc/service.h"
#include "net/rpc/fault_json.h"
#include "net/rpc/rpc_channel.h"

namespace tally::control {
namespace {

using nlohmann::json;

constexpr std::size_t kMostReports = 1024;     // of one request
constexpr std::size_t kMostPlacements = 8192;  // at a node: two versions of each of its jobs
constexpr std::size_t kMostError = 1024;       // bytes

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

Error bad_rails() {
  return {Status::kInvalidArgument,
          fmt::format("\"rails\" is a list of at most {} {{address, tcp, speed, shards, up}}",
                      kMaxRails)};
}

}  // namespace

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
  member.rack.name = params.text_or("rack", kMaxJobName, "");
  member.rack.up = member.rack.down = params.number_or("rack_speed", 0, 1ULL << 50, 0);
  const auto epoch = static_cast<std::uint32_t>(params.number_or("epoch", 0, UINT32_MAX - 1, 0));
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  if (version != rpc::kProtocolVersion) return reply.error(other_version(version, "node"));
  if (member.name.empty() || (role != "worker" && role != "helper")) {
    return reply.error(Status::kInvalidArgument,
                       "a node needs a name, and \"role\" is \"worker\" or \"helper\"");
  }
  if (!is_plain(member.name + member.host + member.tcp + member.local + member.rack.name)) {
    return reply.error(Status::kInvalidArgument,
                       "the name, host, address or rack of a node has a control character");
  }
  if (member.rack.name == plan::kCoreName) {
    return reply.error(Status::kInvalidArgument,
                       "\"core\" is the switch above the racks: give the rack another name "
                       "(cluster.rack)");
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

}  // namespace tally::control
