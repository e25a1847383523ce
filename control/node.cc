#include "control/node.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/debug_steps.h"
#include "client/cut_json.h"
#include "client/rpc_channel.h"
#include "control/log.h"
#include "control/node_session.h"

namespace tally::control {
namespace {

using nlohmann::json;
namespace shm = transport::shm;

// That fail, of a session: making a connection costs time.
constexpr std::uint32_t kMostAttaches = 2;

// A Unix one: closing it never waits, whatever its owner has set (a TCP socket may linger).
bool is_doorbell(int fd) {
  const auto option = [fd](int name) {
    int value = -1;
    socklen_t length = sizeof value;
    return ::getsockopt(fd, SOL_SOCKET, name, &value, &length) == 0 ? value : -1;
  };
  return option(SO_DOMAIN) == AF_UNIX && option(SO_TYPE) == SOCK_STREAM;
}

AdmissionLimits limits_of(const NodeOptions& options, const ShardSet& shards) {
  AdmissionLimits limits = options.limits;
  limits.shards = shards.size();
  limits.credit = options.credit;
  limits.split_bytes = options.split_bytes;
  return limits;
}

CoordinatorServiceOptions coordinator_of(const NodeOptions& options) {
  return {.coordinator = {.token = options.cluster_token,
                          .open_jobs = options.limits.open_jobs,
                          .max_jobs = options.limits.max_jobs,
                          .max_ranks = options.limits.max_ranks,
                          .split_bytes = options.split_bytes,
                          .jobs = options.jobs},
          .default_deadline_ms = options.default_deadline_ms,
          .coordinators = options.coordinators,
          .standing = options.standing};
}

}  // namespace

Node::Node(NodeOptions options, asio::io_context& io, ShardSet& shards, Store& store,
           std::function<void(rpc::ConnectionId, std::string_view)> disconnect)
    : options_(std::move(options)),
      shards_(shards),
      disconnect_(std::move(disconnect)),
      admission_(limits_of(options_, shards), options_.jobs),
      introspection_(options_.facts, shards, admission_),
      coordinator_(coordinator_of(options_), store, io, disconnect_),
      probe_(options_.probe, io, options_.is_local),
      patience_(io),
      makers_(io, options_.verbs ? kMakers : 0),
      ender_(io, options_.verbs ? 1 : 0),
      uplinks_(io, shards, options_.name, !options_.coordinators.empty()) {
  admission_.set_rails(options_.rails);
  shards_.on_lost([this](transport::Peer peer) { on_lost(peer); });
  uplinks_.on_lost(
      [this](std::uint32_t slot, const std::string& node) { on_uplink_lost(slot, node); });
}

Node::~Node() {
  for (const auto& [number, session] : by_number_) session->give_up_attempt();
}

void Node::handle(rpc::ConnectionId connection, rpc::Request request, rpc::Reply reply) {
  const std::string& method = request.method;
  if (method.starts_with("node.")) {
    return introspection_.handle(connection, request, std::move(reply));
  }
  if (method.starts_with("cluster.") || method.starts_with("job.") || method.starts_with("plan.")) {
    return coordinator_.handle(connection, request, std::move(reply));
  }
  if (method.starts_with("probe.")) return probe_.handle(connection, request, std::move(reply));
  if (method == "session.open") return open(connection, request, std::move(reply));
  if (method.rfind("session.", 0) != 0 && method.rfind("region.", 0) != 0) {
    return reply.unknown_method(method);
  }
  const SharedSession session = session_of(connection);
  if (session == nullptr || session->ending) {
    return reply.error(no_session());
  }
  if (method == "session.attach") return attach(session, request, std::move(reply));
  if (method == "session.close") return close(session, std::move(reply));
  if (method == "session.empty") return hear_empty(session, request, std::move(reply));
  if (!session->attached || session->attaching) {
    return reply.error(Status::kInvalidArgument,
                       "the session is not attached: session.attach first");
  }
  if (method == "region.register") return register_region(session, request, std::move(reply));
  if (method == "region.deregister") return deregister_region(session, request, std::move(reply));
  reply.unknown_method(method);
}

Node::SharedSession Node::session_of(rpc::ConnectionId connection) const {
  const auto found = by_connection_.find(connection);
  return found == by_connection_.end() ? nullptr : found->second;
}

std::uint32_t Node::free_number() const {
  std::uint32_t number = 0;
  for (const auto& [used, session] : by_number_) {
    if (used != number) break;
    ++number;
  }
  return number;
}

void Node::open(rpc::ConnectionId connection, rpc::Request& request, rpc::Reply reply) {
  rpc::Params params(request.params);
  const auto version = params.number("version", 0, UINT32_MAX);
  Admission::Applicant applicant;
  applicant.job = params.text("job", kMaxJobName);
  applicant.token = params.text_or("token", kMaxJobName, "");
  applicant.ranks = static_cast<std::uint32_t>(params.number("ranks", 1, wire::kMaxRanks));
  applicant.branch = params.text_or("branch", kMaxJobName, "");
  if (applicant.branch.empty()) {
    applicant.rank = static_cast<std::uint32_t>(params.number("rank", 0, wire::kMaxRanks - 1));
    applicant.epoch = static_cast<std::uint32_t>(params.number_or("epoch", 1, UINT32_MAX, 0));
  } else {
    applicant.lane = static_cast<std::uint32_t>(params.number("lane", 0, protocol::kMaxTrees - 1));
    applicant.epoch = static_cast<std::uint32_t>(params.number("epoch", 1, UINT32_MAX));
  }
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  if (version != client::kProtocolVersion) {
    return reply.error(
        Status::kUnsupported,
        fmt::format("the client speaks version {} of the control protocol, this node "
                    "version {}: install matching releases",
                    version, client::kProtocolVersion));
  }
  if (applicant.rank >= applicant.ranks) {
    return reply.error(Status::kInvalidArgument,
                       fmt::format("rank {} of {} ranks", applicant.rank, applicant.ranks));
  }
  if (session_of(connection) != nullptr) {
    return reply.error(Status::kInvalidArgument, "this connection has a session already");
  }
  auto session = std::make_shared<Session>();
  session->connection = connection;
  session->number = free_number();
  const auto admitted = admission_.admit(applicant, session->number);
  if (!admitted) return reply.error(admitted.error());
  Forming& forming = *admitted->forming;
  session->forming = &forming;
  session->member = admitted->member;
  session->credit =
      forming.is_branch(session->member) ? forming.messages_of(session->member) : forming.credit;
  by_connection_[connection] = session;
  by_number_[session->number] = session;
  if (admitted->is_new) {
    announce(forming, [] {});
    log::info("job-formed",
              {{"job", forming.name}, {"epoch", forming.epoch}, {"ranks", forming.ranks()}});
  }
  debug_step(DebugStep::kNodeSessionOpened);
  opened(*session, std::move(reply));
}

void Node::opened(const Session& session, rpc::Reply reply) const {
  const Forming& forming = *session.forming;
  json answer = {{"session", session.number},
                 {"epoch", forming.epoch},
                 {"transport", "shm"},
                 {"lanes", forming.shards.size()},
                 {"trees", forming.trees()},
                 {"credit", session.credit},
                 {"deadline_ms", options_.default_deadline_ms}};
  client::put_plan(answer, forming.plan);
  // The version before takes each tree for a lane.
  if (forming.vertices.size() == forming.shards.size()) client::put_weights(answer, forming.plan);
  if (options_.checksums) answer["checksums"] = "crc32c";
  // Where each lane's shard is.
  const std::vector<Rail>& rails = admission_.rails();
  for (std::size_t lane = 0; lane < forming.shards.size() && !rails.empty(); ++lane) {
    answer["hosts"].push_back(rails[rail_of(forming.shards[lane], rails)].address);
  }
  if (options_.fabric) {
    answer["fabric"] = {{"provider", options_.fabric->provider},
                        {"host", options_.fabric->host},
                        {"eager_bytes", options_.fabric->eager_bytes}};
  }
  if (options_.verbs) {
    answer["verbs"] = {{"device", options_.verbs->device},
                       {"gid", options_.verbs->gid},
                       {"eager_bytes", transport::verbs::kEagerBytes},
                       {"probe_bytes", transport::verbs::kProbeBytes},
                       {"ack_timeout", options_.verbs->ack_timeout}};
  }
  // What is eager is so by operations, of which the messages of a branch do not speak.
  for (const char* network : {"fabric", "verbs"}) {
    const bool offered = forming.is_branch(session.member) && answer.contains(network);
    if (offered) answer[network].erase("eager_bytes");
  }
  reply.result(std::move(answer));
}

std::vector<std::uint32_t> Node::numbers_of(const Session& session) const {
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t i = 0; i < shards_.size(); ++i) {
    numbers.push_back(session.forming->member_at(i, session.member));
  }
  return numbers;
}

std::vector<std::uint32_t> Node::lanes_of(const Forming& forming) const {
  std::vector<std::uint32_t> lanes;
  for (std::uint32_t i = 0; i < shards_.size(); ++i) lanes.push_back(forming.lane_of(i));
  return lanes;
}

// Every shard knows every job, also those that it does not serve: then it has nothing to tell.
void Node::announce(const Forming& forming, std::function<void()> then) {
  protocol::JobSpec spec;
  spec.epoch = forming.epoch;
  spec.ranks = forming.ranks();
  spec.weight = forming.weight;
  spec.credit = forming.credit;
  spec.plan = forming.plan;
  std::vector<protocol::JobSpec> specs(shards_.size(), spec);
  for (std::uint32_t i = 0; i < shards_.size(); ++i) {
    specs[i].vertices = forming.vertices_at(i);
    specs[i].branches = static_cast<std::uint16_t>(forming.below_at(i).size());
    specs[i].parents = static_cast<std::uint16_t>(forming.above_at(i).size());
    specs[i].slots = forming.slots;
    for (const std::uint32_t one : forming.below_at(i)) {
      specs[i].branch_nodes.push_back(forming.below[one].node);
    }
    for (const std::uint32_t one : forming.above_at(i)) {
      specs[i].parent_nodes.push_back(forming.above[one].node);
    }
    specs[i].window_bytes = forming.window_at(i);
    if (specs[i].vertices.empty()) specs[i].credit = 1;
  }
  shards_.on_each([slot = forming.slot, specs = std::move(specs)](
                      std::uint32_t i, engine::Shard& shard,
                      auto&) { shard.protocol().add_job(slot, specs[i]); },
                  std::move(then));
}

// The client hands over the segment and its doorbells; from here on the shards serve it.
void Node::attach(const SharedSession& session, rpc::Request& request, rpc::Reply reply) {
  // A client that sees that nothing gets through on one network may try another.
  const bool first = !session->attached || (session->over_network && session->regions.empty());
  if (!first || session->attaching || session->failed_attaches >= kMostAttaches) {
    return reply.error(Status::kInvalidArgument, "attached already, or tried too often");
  }
  if (request.params.contains("transport")) {
    return attach_to_network(session, request, std::move(reply));
  }
  if (session->attached) return reply.error(Status::kInvalidArgument, "attached already");
  const auto shards = static_cast<std::uint32_t>(session->forming->shards.size());
  if (request.fds.size() != 1 + shards) {
    return reply.error(Status::kInvalidArgument,
                       fmt::format("session.attach: {} descriptors, expected 1 + {} shards",
                                   request.fds.size(), shards));
  }
  const shm::SegmentGeometry geometry{shards, session->credit};
  auto segment = shm::map_peer(request.fds[0].get(), geometry.bytes(), "session segment");
  if (!segment) return reply.error(segment.error());
  auto doorbells = std::make_shared<std::vector<UniqueFd>>();
  for (std::uint32_t i = 0; i < shards; ++i) {
    if (!is_doorbell(request.fds[1 + i].get())) {
      return reply.error(Status::kInvalidArgument, "a doorbell is not a Unix stream socket");
    }
    doorbells->push_back(std::move(request.fds[1 + i]));
  }
  session->segment = PeerMemory(std::move(segment).value(), session->faulted);
  session->attached = true;
  const shm::Segment view(session->segment.mapping.data(), geometry);
  const Forming& forming = *session->forming;
  auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  shards_.on_each(
      [doorbells, view, session, job = forming.slot, lanes = lanes_of(forming),
       numbers = numbers_of(*session)](std::uint32_t i, engine::Shard& shard, Ports& ports) {
        if (const std::uint32_t lane = lanes[i]; lane != kNoLane) {
          ports.route(session->number, ports.shm);
          ports.shm.attach(session->number, view, lane, std::move((*doorbells)[lane]),
                           session->faulted);
        }
        join(shard, job, numbers[i], session->number);
      },
      [answer] {
        debug_step(DebugStep::kNodeAttached);
        answer->result(json::object());
      });
}

void Node::close(const SharedSession& session, rpc::Reply reply) {
  auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  end(session, Status::kPeerLeft, [answer] {
    debug_step(DebugStep::kNodeSessionClosed);
    answer->result(json::object());
  });
}

void Node::closed(rpc::ConnectionId connection) {
  introspection_.closed(connection);
  coordinator_.closed(connection);
  const SharedSession session = session_of(connection);
  by_connection_.erase(connection);
  if (session == nullptr || session->ending) return;
  const Forming& forming = *session->forming;
  if (forming.is_branch(session->member)) {
    log::warning("branch-lost", {{"job", forming.name},
                                 {"node", forming.below[session->member - forming.ranks()].name}});
  } else {
    log::info("session-lost", {{"job", forming.name}, {"rank", session->member}});
  }
  end(session, Status::kPeerLost, [] {});
}

void Node::hang_up(std::function<void()> then) {
  hung_up_ = true;
  uplinks_.give_up();
  std::vector<transport::Peer> peers;
  for (const auto& [number, session] : by_number_) {
    session->give_up_attempt();
    if (!session->ending) peers.push_back(number);
  }
  auto doorbells = std::make_shared<std::vector<std::vector<UniqueFd>>>(shards_.size());
  shards_.on_each(
      [peers = std::move(peers), doorbells](std::uint32_t i, auto&, Ports& ports) {
        for (const transport::Peer peer : peers) (*doorbells)[i].push_back(ports.detach(peer));
      },
      [doorbells, then = std::move(then)] {
        doorbells->clear();
        then();
      });
}

void Node::on_lost(transport::Peer peer) {
  const auto found = by_number_.find(peer);
  if (found == by_number_.end() || found->second->ending) return;
  const SharedSession session = found->second;
  if (!session->over_network) {
    return disconnect_(session->connection,
                       "its process has ended, broke the protocol of the rings, or took memory "
                       "away");
  }
  auto reasons = std::make_shared<std::vector<std::string>>(shards_.size());
  shards_.on_each([peer, reasons](std::uint32_t i, auto&,
                                  Ports& ports) { (*reasons)[i] = ports.why_lost(peer); },
                  [this, session, reasons] {
                    if (session->ending) return;
                    const auto said = std::find_if(reasons->begin(), reasons->end(),
                                                   [](const auto& one) { return !one.empty(); });
                    disconnect_(session->connection, said == reasons->end() ? "" : *said);
                  });
}

void Node::end(const SharedSession& session, Status why, std::function<void()> then) {
  session->ending = true;
  session->give_up_attempt();
  by_connection_.erase(session->connection);
  set_over(*session->forming);
  let_go(
      session,
      [job = session->forming->slot, numbers = numbers_of(*session), why](
          std::uint32_t i, engine::Shard& shard, auto&) {
        if (numbers[i] == kNobody) return;
        shard.protocol().gone(job, static_cast<std::uint16_t>(numbers[i]), why, monotonic_now());
      },
      [this, session, then = std::move(then)] {
        leave(session);
        then();
      });
}

bool Node::is_over(const Session& session) const {
  return session.ending || hung_up_;
}

// No shard knows the session any more.
void Node::leave(const SharedSession& session) {
  Forming& forming = *session->forming;
  for (const auto& [id, region] : session->regions) {
    Admission::give_back(forming, region.mapping.size());
  }
  session->regions.clear();
  session->segment.reset();
  by_number_.erase(session->number);
  if (!admission_.leave(forming, session->member)) return settle(forming);
  log::info("job-over", {{"job", forming.name}, {"epoch", forming.epoch}});
  remove(forming);
}

// Precondition: it has no members.
void Node::remove(Forming& forming) {
  uplinks_.remove(forming, [this, &forming] { admission_.release(forming); });
}

}  // namespace tally::control
