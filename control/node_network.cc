// Sessions of workers on other machines: how they are attached to the shards' network ports, and
// their memory.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "control/client_ends.h"
#include "control/node.h"
#include "control/node_session.h"

namespace tally::control {
namespace {

using nlohmann::json;

Result<std::string> in_hex(const Result<transport::fabric::Name>& name) {
  if (!name) return name.error();
  return transport::fabric::to_hex(*name);
}

Result<std::string> in_hex(const Result<transport::verbs::Address>& address) {
  if (!address) return address.error();
  return transport::verbs::to_hex(*address);
}

}  // namespace

void Node::attach_to_network(const SharedSession& session, rpc::Request& request,
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

// The client has an endpoint for all shards, or one for each of its NICs; each shard makes one for
// it.
void Node::attach_to_fabric(const SharedSession& session, const rpc::Request& request,
                            rpc::Reply reply) {
  auto ends = parse_ends(request.params, session->forming->shards.size());
  if (!ends) return reply.error(ends.error());
  auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  begin_attaching(session, answer, [this, session, answer, ends = std::move(*ends)] {
    attach_each(
        session, answer, &Ports::fabric,
        [ends, job = session->forming->slot, peer = session->number](
            std::uint32_t lane, transport::fabric::Port& port) {
          const ClientEnd& end = ends[lane];
          return in_hex(port.attach(peer, {job, end.name, end.secret, end.shard, end.eager_bytes}));
        });
  });
}

// The client has a queue pair for each shard; each shard gets one for it.
void Node::attach_to_verbs(const SharedSession& session, rpc::Params& params, rpc::Reply reply) {
  const auto names = params.texts("names", session->forming->shards.size(), kMaxEndpointName);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  std::vector<transport::verbs::Address> clients;
  for (const std::string& name : names) {
    const auto address = transport::verbs::from_hex(name);
    if (!address) return reply.error(Status::kInvalidArgument, "\"names\" has no queue pair's");
    clients.push_back(*address);
  }
  auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  begin_attaching(session, answer, [this, session, answer, clients = std::move(clients)] {
    make_queue_pairs(session, clients, answer);
  });
}

// What the session came by before is let go of.
void Node::begin_attaching(const SharedSession& session, const SharedReply& answer,
                           std::function<void()> then) {
  const bool before = std::exchange(session->attached, true);
  session->attaching = session->over_network = true;
  if (!before) return then();
  let_go(
      session, [](auto, auto&, auto&) {},
      [this, session, answer, then = std::move(then)] {
        if (is_over(*session)) return answer->error(no_session());
        then();
      });
}

void Node::make_queue_pairs(const SharedSession& session,
                            const std::vector<transport::verbs::Address>& clients,
                            const SharedReply& answer) {
  const auto attempt = session->attempt = std::make_shared<Attempt>();
  attempt->peer = session->number;
  attempt->clients = clients;
  // Of a branch too, which may have more on their way than a queue is to have room for.
  attempt->credit = std::min(session->credit, options_.credit);
  attempt->ports.resize(clients.size());
  const auto lanes = lanes_of(*session->forming);
  for (std::uint32_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i] != kNoLane) attempt->ports[lanes[i]] = shards_.verbs(i);
  }
  const auto hand_over = [attempt](std::uint32_t lane, transport::verbs::Port& port) {
    return in_hex(port.attach(attempt->peer, std::move(attempt->made[lane])));
  };
  makers_.run([attempt] { attempt->make(); },
              [this, session, attempt, answer, hand_over] {
                if (is_over(*session)) return drop(attempt, answer);
                if (attempt->why_not) return give_up_attaching(session, *attempt->why_not, answer);
                attach_each(session, answer, &Ports::verbs, hand_over);
              });
}

// One after the other: the first that fails is the end of it, and a client that has hung up does
// not keep the thread.
void Node::Attempt::make() {
  for (std::size_t i = 0; i < ports.size() && !given_up; ++i) {
    auto one = ports[i]->connect(peer, clients[i], credit);
    if (!one) {
      why_not = one.error();
      break;
    }
    made.push_back(std::move(one).value());
  }
  if (made.size() < ports.size()) made.clear();
}

void Node::drop(const std::shared_ptr<Attempt>& attempt, const SharedReply& answer) {
  ender_.run([attempt] { attempt->made.clear(); }, [answer] { answer->error(no_session()); });
}

// `attach(lane, port)` gives the name of what serves the client there, or why nothing does. Then
// the session is as it was before.
template <typename Port, typename Attach>
void Node::attach_each(const SharedSession& session, const SharedReply& answer,
                       std::unique_ptr<Port> Ports::*port, Attach attach) {
  auto names = std::make_shared<std::vector<Result<std::string>>>(
      session->forming->shards.size(), Error{Status::kInternal, "not attached"});
  shards_.on_each(
      [session, names, port, attach, lanes = lanes_of(*session->forming),
       numbers = numbers_of(*session)](std::uint32_t i, engine::Shard& shard, Ports& ports) {
        if (const std::uint32_t lane = lanes[i]; lane != kNoLane) {
          ports.route(session->number, *(ports.*port));
          (*names)[lane] = attach(lane, *(ports.*port));
          if (!(*names)[lane]) return;
        }
        join(shard, session->forming->slot, numbers[i], session->number);
      },
      [this, session, names, answer] {
        json made = json::array();
        for (const auto& name : *names) {
          if (!name) return give_up_attaching(session, name.error(), answer);
          made.push_back(*name);
        }
        session->attaching = false;
        answer->result({{"names", std::move(made)}});
      });
}

void Node::give_up_attaching(const SharedSession& session, const Error& why,
                             const SharedReply& answer) {
  if (is_over(*session)) return answer->error(why);  // what there is of it is let go of already
  let_go(
      session, [](auto, auto&, auto&) {},
      [session, why, answer] {
        session->attached = session->attaching = false;
        session->over_network = false;
        ++session->failed_attaches;
        answer->error(why);
      });
}

void Node::let_go(const SharedSession& session, ShardSet::Task first, std::function<void()> then) {
  using Parted = std::vector<std::optional<transport::verbs::Connection>>;
  auto parted = std::make_shared<Parted>(shards_.size());
  shards_.on_each(
      [peer = session->number, first = std::move(first), parted](
          std::uint32_t i, engine::Shard& shard, Ports& ports) {
        first(i, shard, ports);
        (*parted)[i] = ports.part(peer);
      },
      [this, peer = session->number, parted, then = std::move(then)] {
        const bool any = std::any_of(parted->begin(), parted->end(),
                                     [](const auto& one) { return one.has_value(); });
        if (!any) return then();
        ender_.run([parted] { parted->clear(); },
                   [this, peer, then] {
                     shards_.on_each([peer](auto, auto&, Ports& ports) { ports.detach(peer); },
                                     then);
                   });
      });
}

// Nothing is mapped: it costs the node an entry, and no memory.
void Node::register_remote(const SharedSession& session, rpc::Request& request, rpc::Reply reply) {
  json rest = request.params;
  rest.erase("keys");
  rpc::Params params(rest);
  onesided::Region region;
  region.bytes = params.number("bytes", 1, wire::kMaxBytes);
  region.base = params.number("base", 0, UINT64_MAX - wire::kMaxBytes);
  region.key = params.number("key", 0, UINT64_MAX);
  const auto wished = wished_region(params);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  const auto keys = parse_keys(request.params, region.key, session->forming->shards.size());
  if (!keys) return reply.error(keys.error());
  const auto free = region_number(*session, wished);
  if (!free) return reply.error(free.error());
  if (auto room = admission_.reserve(*session->forming, 0); !room) {
    return reply.error(room.error());
  }
  const std::uint32_t id = *free;
  session->regions[id] = PeerMemory();
  auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  shards_.on_each(
      [peer = session->number, id, region, keys = *keys, lanes = lanes_of(*session->forming)](
          std::uint32_t i, auto&, Ports& ports) {
        if (lanes[i] == kNoLane) return;
        onesided::Region here = region;
        here.key = keys[lanes[i]];
        ports.add_region(peer, id, here);
      },
      [answer, id] {
        answer->result({{"region", id}});
      });
}

}  // namespace tally::control
