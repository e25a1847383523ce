#include "control/node/session_endpoints.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/debug_steps.h"
#include "control/node/endpoints/client_ends.h"
#include "control/node/endpoints/endpoint_host.h"

namespace tally::control {
namespace {

using nlohmann::json;
namespace shm = transport::shm;

// Most failed attempts of a session, because each costs time.
constexpr std::uint32_t kMostAttaches = 2;

// True for a Unix stream socket. Closing one never waits, whatever its owner has set (a TCP socket
// may linger).
bool is_doorbell(int fd) {
  const auto option = [fd](int name) {
    int value = -1;
    socklen_t length = sizeof value;
    return ::getsockopt(fd, SOL_SOCKET, name, &value, &length) == 0 ? value : -1;
  };
  return option(SO_DOMAIN) == AF_UNIX && option(SO_TYPE) == SOCK_STREAM;
}

Result<std::string> in_hex(const Result<transport::fabric::Name>& name) {
  if (!name) return name.error();
  return transport::fabric::to_hex(*name);
}

Result<std::string> in_hex(const Result<transport::verbs::Address>& address) {
  if (!address) return address.error();
  return transport::verbs::to_hex(*address);
}

// Takes the doorbells out of the request's descriptors, which are the segment and one doorbell for
// each shard.
Result<std::vector<UniqueFd>> take_doorbells(rpc::Request& request, std::uint32_t shards) {
  if (request.fds.size() != 1 + shards) {
    return Error{Status::kInvalidArgument,
                 fmt::format("session.attach: {} descriptors, expected 1 + {} shards",
                             request.fds.size(), shards)};
  }
  std::vector<UniqueFd> doorbells;
  for (std::uint32_t i = 0; i < shards; ++i) {
    if (!is_doorbell(request.fds[1 + i].get())) {
      return Error{Status::kInvalidArgument, "a doorbell is not a Unix stream socket"};
    }
    doorbells.push_back(std::move(request.fds[1 + i]));
  }
  return doorbells;
}

// `number` is the member's number at the shard.
void join(engine::Shard& shard, protocol::JobId job, std::uint32_t number, transport::Peer peer) {
  if (number != kNobody) shard.protocol().join(job, static_cast<std::uint16_t>(number), peer);
}

}  // namespace

void SessionEndpoints::attach(const SharedSession& session, rpc::Request& request,
                              rpc::Reply reply) {
  // A client whose messages do not arrive over one network may try another.
  const bool first = !session->attached || (session->over_network && session->regions.empty());
  if (!first || session->attaching || session->failed_attaches >= kMostAttaches) {
    return reply.error(Status::kInvalidArgument, "attached already, or tried too often");
  }
  if (request.params.contains("transport")) {
    return attach_to_network(session, request, std::move(reply));
  }
  if (session->attached) return reply.error(Status::kInvalidArgument, "attached already");
  attach_to_memory(session, request, std::move(reply));
}

// The client sends the segment and its doorbells. From then on the shards serve it.
void SessionEndpoints::attach_to_memory(const SharedSession& session, rpc::Request& request,
                                        rpc::Reply reply) {
  JobInstance& instance = *session->instance;
  const auto shards = static_cast<std::uint32_t>(instance.shards.size());
  auto taken = take_doorbells(request, shards);
  if (!taken) return reply.error(taken.error());
  auto doorbells = std::make_shared<std::vector<UniqueFd>>(std::move(taken).value());
  const shm::SegmentGeometry geometry{shards, session->credit};
  if (auto room = capacity_.reserve_segment(instance); !room) return reply.error(room.error());
  auto segment = shm::map_peer(request.fds[0].get(), geometry.bytes(), "session segment");
  if (!segment) {
    Capacity::give_back_segment(instance);
    return reply.error(segment.error());
  }
  shm::populate({segment->data(), segment->size()});
  session->segment = PeerMemory(std::move(segment).value(), session->faulted);
  session->attached = true;
  const shm::Segment view(session->segment.mapping.data(), geometry);
  auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  shards_.on_each(
      [doorbells, view, session, job = instance.job_id,
       indices = session->shard_indices(shards_.size()),
       numbers = session->numbers(shards_.size())](std::uint32_t i, engine::Shard& shard,
                                                   Transports& transports) {
        if (const std::uint32_t index = indices[i]; index != kNoShardIndex) {
          transports.route(session->number, transports.shm);
          transports.shm.attach(session->number, view, index, std::move((*doorbells)[index]),
                                session->faulted);
        }
        join(shard, job, numbers[i], session->number);
      },
      [this, session, answer](const Outcome& done) {
        if (!done) return give_up(session, no_memory_for("the session"), answer);
        debug_step(DebugStep::kNodeAttached);
        answer->result(json::object());
      });
}

void SessionEndpoints::attach_to_network(const SharedSession& session, const rpc::Request& request,
                                         rpc::Reply reply) {
  rpc::Params params(request.params);
  const std::string transport = params.text("transport", kMaxTransport);
  if (transport == "fabric" && options_.fabric) {
    return attach_to_fabric(session, request, std::move(reply));
  }
  if (transport == "verbs" && options_.verbs) {
    return attach_to_verbs(session, params, std::move(reply));
  }
  if (transport.empty()) return reply.error(*params.finish());
  reply.error(Status::kUnsupported,
              fmt::format("this node does not offer transport \"{}\": session.open says which it "
                          "does (those of other machines with --listen-tcp alone)",
                          transport));
}

// The client has one endpoint for all shards, or one for each of its NICs. Each shard makes an
// endpoint for the client.
void SessionEndpoints::attach_to_fabric(const SharedSession& session, const rpc::Request& request,
                                        rpc::Reply reply) {
  auto ends = parse_ends(request.params, session->instance->shards.size());
  if (!ends) return reply.error(ends.error());
  for (const ClientEnd& end : *ends) {
    const auto fine = check_endpoint(end.name, options_.fabric->provider, session->hosts);
    if (!fine) return reply.error(fine.error());
  }
  auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  begin(session, answer, [this, session, answer, ends = std::move(*ends)] {
    attach_each(session, answer, &Transports::fabric,
                [ends, job = session->instance->job_id, peer = session->number](
                    std::uint32_t index, transport::fabric::FabricTransport& transport) {
                  const ClientEnd& end = ends[index];
                  return in_hex(transport.attach(
                      peer, {job, end.name, end.secret, end.shard, end.eager_bytes}));
                });
  });
}

// The client has one queue pair for each shard. Each shard makes a queue pair for it.
void SessionEndpoints::attach_to_verbs(const SharedSession& session, rpc::Params& params,
                                       rpc::Reply reply) {
  const auto names = params.texts("names", session->instance->shards.size(), kMaxEndpointName);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  std::vector<transport::verbs::Address> clients;
  for (const std::string& name : names) {
    const auto address = transport::verbs::from_hex(name);
    if (!address) return reply.error(Status::kInvalidArgument, "\"names\" has no queue pair's");
    clients.push_back(*address);
  }
  auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  begin(session, answer, [this, session, answer, clients = std::move(clients)] {
    if (!options_.verbs->in_user_space) return make_queue_pairs(session, clients, answer);
    const std::uint32_t credit = std::min(session->credit, options_.credit);
    attach_each(session, answer, &Transports::roce,
                [clients, credit, peer = session->number](
                    std::uint32_t index, transport::roce::RoceTransport& transport) {
                  return in_hex(transport.attach(peer, clients[index], credit));
                });
  });
}

void SessionEndpoints::begin(const SharedSession& session, const SharedReply& answer,
                             std::function<void()> then) {
  const bool before = std::exchange(session->attached, true);
  session->attaching = session->over_network = true;
  if (!before) return then();
  detach(
      session, [](auto, auto&, auto&) {},
      [this, session, answer, then = std::move(then)] {
        if (is_over(*session)) return answer->error(no_session());
        then();
      });
}

void SessionEndpoints::make_queue_pairs(const SharedSession& session,
                                        const std::vector<transport::verbs::Address>& clients,
                                        const SharedReply& answer) {
  const auto attempt = session->attempt = std::make_shared<QueuePairs::Attempt>();
  attempt->peer = session->number;
  attempt->clients = clients;
  // The limit applies to a child node too, whose credit may exceed a receive queue.
  attempt->credit = std::min(session->credit, options_.credit);
  attempt->transports.resize(clients.size());
  const auto indices = session->shard_indices(shards_.size());
  for (std::uint32_t i = 0; i < indices.size(); ++i) {
    if (indices[i] != kNoShardIndex) attempt->transports[indices[i]] = shards_.verbs(i);
  }
  const auto hand_over = [attempt](std::uint32_t index,
                                   transport::verbs::VerbsTransport& transport) {
    return in_hex(transport.attach(attempt->peer, std::move(*attempt->made[index])));
  };
  queue_pairs_.make(attempt, [this, session, attempt, answer, hand_over](const Outcome& done) {
    if (is_over(*session)) {
      // The attempt owns the queue pairs until they have ended.
      const std::shared_ptr<QueuePairs::Connections> made(attempt, &attempt->made);
      return queue_pairs_.end(made, [answer] { answer->error(no_session()); });
    }
    if (!done) attempt->why_not = no_memory_for("the session's queue pairs");
    if (attempt->why_not) return give_up(session, *attempt->why_not, answer);
    attach_each(session, answer, &Transports::verbs, hand_over);
  });
}

template <typename T, typename Attach>
void SessionEndpoints::attach_each(const SharedSession& session, const SharedReply& answer,
                                   std::unique_ptr<T> Transports::*transport, Attach attach) {
  auto names = std::make_shared<std::vector<Result<std::string>>>(
      session->instance->shards.size(), Error{Status::kInternal, "not attached"});
  shards_.on_each(
      [session, names, transport, attach, indices = session->shard_indices(shards_.size()),
       numbers = session->numbers(shards_.size())](std::uint32_t i, engine::Shard& shard,
                                                   Transports& transports) {
        if (const std::uint32_t index = indices[i]; index != kNoShardIndex) {
          transports.route(session->number, *(transports.*transport));
          (*names)[index] = attach(index, *(transports.*transport));
          if (!(*names)[index]) return;
        }
        join(shard, session->instance->job_id, numbers[i], session->number);
      },
      [this, session, names, answer](const Outcome& done) {
        if (!done) return give_up(session, no_memory_for("the session"), answer);
        json made = json::array();
        for (const auto& name : *names) {
          if (!name) return give_up(session, name.error(), answer);
          made.push_back(*name);
        }
        session->attaching = false;
        answer->result({{"names", std::move(made)}});
      });
}

void SessionEndpoints::give_up(const SharedSession& session, const Error& why,
                               const SharedReply& answer) {
  if (is_over(*session)) return answer->error(why);  // it is detached already
  detach(
      session, [](auto, auto&, auto&) {},
      [session, why, answer] {
        release_segment(*session);
        session->attached = session->attaching = false;
        session->over_network = false;
        ++session->failed_attaches;
        answer->error(why);
      });
}

void SessionEndpoints::detach(const SharedSession& session, ShardSet::Task first,
                              std::function<void()> then) {
  const auto parted = std::make_shared<QueuePairs::Connections>(shards_.size());
  shards_.on_each(
      [peer = session->number, first = std::move(first), parted](
          std::uint32_t i, engine::Shard& shard, Transports& transports) {
        first(i, shard, transports);
        (*parted)[i] = transports.part(peer);
      },
      [this, peer = session->number, parted, then = std::move(then)] {
        const bool any = std::any_of(parted->begin(), parted->end(),
                                     [](const auto& one) { return one.has_value(); });
        if (!any) return then();
        queue_pairs_.end(parted, [this, peer, then] {
          shards_.on_each([peer](auto, auto&, Transports& transports) { transports.detach(peer); },
                          then);
        });
      });
}

void SessionEndpoints::hang_up(const SessionTable& sessions, std::function<void()> then) {
  hung_up_ = true;
  std::vector<transport::Peer> peers;
  for (const auto& [number, session] : sessions.all()) {
    session->give_up_attempt();
    if (!session->ending) peers.push_back(number);
  }
  auto doorbells = std::make_shared<std::vector<std::vector<UniqueFd>>>(shards_.size());
  shards_.on_each(
      [peers = std::move(peers), doorbells](std::uint32_t i, auto&, Transports& transports) {
        for (const transport::Peer peer : peers) (*doorbells)[i].push_back(transports.detach(peer));
      },
      [doorbells, then = std::move(then)] {
        doorbells->clear();
        then();
      });
}

void SessionEndpoints::release_segment(Session& session) {
  if (session.segment.mapping) Capacity::give_back_segment(*session.instance);
  session.segment.reset();
}

}  // namespace tally::control
