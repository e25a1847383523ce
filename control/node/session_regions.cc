#include "control/node/session_regions.h"

#include <fmt/format.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "base/debug_steps.h"
#include "control/node/endpoints/client_ends.h"

namespace tally::control {

namespace {

using nlohmann::json;

Error no_region(std::uint32_t number) {
  return {Status::kBadRegion, fmt::format("this session has no region {}", number)};
}

}  // namespace

std::uint32_t SessionRegions::wished_number(rpc::Params& params) const {
  return static_cast<std::uint32_t>(params.number_or("region", 1, max_regions_, 0));
}

Result<RegionId> SessionRegions::reserve(Session& session, std::uint32_t wished,
                                         std::uint64_t bytes) const {
  const auto region = session.regions.add(wished, bytes);
  if (!region) return region.error();
  const RegionId id = (*region)->id;
  if (auto room = capacity_.reserve(*session.instance, bytes); !room) {
    session.regions.erase(id);
    return room.error();
  }
  return id;
}

void SessionRegions::forget(Session& session, RegionId id) {
  Region* region = session.regions.find(id);
  if (region == nullptr) return;
  Capacity::give_back(*session.instance, region->bytes);
  const SharedReply removal = std::move(region->removal);
  session.regions.erase(id);
  if (removal != nullptr) removal->error(no_region(id.number));
}

void SessionRegions::check(const SharedSession& session, const rpc::Request& request,
                           rpc::Reply reply) const {
  rpc::Params params(request.params);
  const auto bytes = params.number("bytes", 1, wire::kMaxBytes);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  // Memory of other machines is not mapped here, and has no quota.
  const auto room = capacity_.for_region(*session->instance, session->over_network ? 0 : bytes);
  if (!room) return reply.error(room.error());
  reply.result(json::object());
}

void SessionRegions::add(const SharedSession& session, rpc::Request& request, rpc::Reply reply) {
  if (session->over_network) return add_remote(session, request, std::move(reply));
  rpc::Params params(request.params);
  const auto bytes = params.number("bytes", 1, wire::kMaxBytes);
  const auto wished = wished_number(params);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  if (request.fds.size() != 1) {
    return reply.error(Status::kInvalidArgument, "region.register: expected 1 descriptor, a memfd");
  }
  auto mapped = std::make_shared<ClientMemory::Request>();
  const auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  const auto id = reserve(*session, wished, bytes);
  if (!id) return answer->error(id.error());
  mapped->fd = std::move(request.fds[0]);
  mapped->bytes = bytes;
  mapped->faulted = &session->faulted;
  session->regions.find(*id)->request = mapped;
  const auto begin = [&] {
    client_memory_.map(session->identity, mapped,
                       [this, session, id = *id, answer](const Outcome& done) {
                         on_mapped(session, id, done, answer);
                       });
  };
  if (within_memory(begin)) return;
  forget(*session, *id);
  answer->error(no_memory_for("the region"));
}

void SessionRegions::on_mapped(const SharedSession& session, RegionId id, const Outcome& done,
                               const SharedReply& answer) {
  Region* region = session->regions.find(id);
  if (session->ending || region == nullptr) return answer->error(no_session());
  const auto request = std::exchange(region->request, nullptr);
  region->memory = std::move(request->memory);
  if (!done || !request->outcome) {
    const Error why = done ? request->outcome.error() : no_memory_for("the region");
    forget(*session, id);
    return answer->error(why);
  }
  std::byte* data = region->memory.mapping.data();
  add_at_shards(session, id, answer,
                [peer = session->number, number = id.number, data, bytes = request->bytes](
                    auto, auto&, Transports& transports) {
                  transports.shm.add_region(peer, number, data, bytes);
                });
}

// Maps nothing, so the region costs the node an entry and no memory.
void SessionRegions::add_remote(const SharedSession& session, const rpc::Request& request,
                                rpc::Reply reply) {
  json rest = request.params;
  rest.erase("keys");
  rpc::Params params(rest);
  onesided::Region region;
  region.bytes = params.number("bytes", 1, wire::kMaxBytes);
  region.base = params.number("base", 0, UINT64_MAX - wire::kMaxBytes);
  region.key = params.number("key", 0, UINT64_MAX);
  const auto wished = wished_number(params);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  const auto keys = parse_keys(request.params, region.key, session->instance->shards.size());
  if (!keys) return reply.error(keys.error());
  const auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  auto indices = session->shard_indices(shards_.size());
  const auto id = reserve(*session, wished, 0);
  if (!id) return answer->error(id.error());
  add_at_shards(session, *id, answer,
                [peer = session->number, number = id->number, region, keys = *keys,
                 indices = std::move(indices)](std::uint32_t i, auto&, Transports& transports) {
                  if (indices[i] == kNoShardIndex) return;
                  onesided::Region here = region;
                  here.key = keys[indices[i]];
                  transports.add_region(peer, number, here);
                });
}

void SessionRegions::add_at_shards(const SharedSession& session, RegionId id,
                                   const SharedReply& answer, ShardSet::Task task) {
  const WorkDone added = [this, session, id, answer](const Outcome& done) {
    Region* region = session->regions.find(id);
    if (session->ending || region == nullptr) return answer->error(no_session());
    if (!done) {
      return remove_at_shards(session, id, [answer](const Outcome&) {
        answer->error(no_memory_for("the region at the shards"));
      });
    }
    region->state = Region::State::kLive;
    debug_step(DebugStep::kNodeRegionAdded);
    answer->result({{"region", id.number}});
    if (auto removal = std::exchange(region->removal, nullptr)) deregister(session, id, removal);
  };
  if (within_memory([&] { shards_.on_each(std::move(task), added); })) return;
  remove_memory(session, id, [answer] { answer->error(no_memory_for("the region")); });
}

void SessionRegions::remove(const SharedSession& session, const rpc::Request& request,
                            rpc::Reply reply) {
  rpc::Params params(request.params);
  const auto number = static_cast<std::uint32_t>(params.number("region", 1, UINT32_MAX));
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  Region* region = session->regions.by_number(number);
  if (region == nullptr) {
    return reply.error(no_region(number));
  }
  if (region->is_leaving()) {
    return reply.error(Status::kBadRegion,
                       fmt::format("region {} is being deregistered already", number));
  }
  const auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  if (region->state == Region::State::kLive) return deregister(session, region->id, answer);
  region->removal = answer;
}

void SessionRegions::deregister(const SharedSession& session, RegionId id,
                                const SharedReply& answer) {
  remove_at_shards(session, id, [answer](const Outcome& removed) {
    if (!removed) return answer->error(removed.error());
    debug_step(DebugStep::kNodeRegionRemoved);
    answer->result(json::object());
  });
}

void SessionRegions::remove_at_shards(const SharedSession& session, RegionId id, WorkDone then) {
  auto in_use = std::make_shared<std::atomic<bool>>(false);  // by a shard
  auto removed = [this, session, id, in_use, then = std::move(then)] {
    Region* there = session->regions.find(id);
    if (session->ending || there == nullptr) return then(no_session());
    if (*in_use) {
      there->state = Region::State::kLive;
      return then(Error{Status::kAgain,
                        fmt::format("region {} is read by an operation that is under way: take its "
                                    "completion, then deregister the region again",
                                    id.number)});
    }
    remove_memory(session, id, [then] { then(Unit{}); });
  };
  shards_.on_each(
      [peer = session->number, number = id.number, in_use](auto, auto&, Transports& transports) {
        if (!transports.remove_region(peer, number)) *in_use = true;
      },
      std::move(removed));
  session->regions.find(id)->state = Region::State::kRemoving;
}

// When there is no memory to hand the region to a thread, this thread unmaps it at once.
void SessionRegions::remove_memory(const SharedSession& session, RegionId id,
                                   std::function<void()> then) {
  Region* region = session->regions.find(id);
  region->state = Region::State::kRemoving;
  const auto gone = [session, id, then = std::move(then)] {
    forget(*session, id);
    then();
  };
  if (!region->memory.mapping) return gone();
  const auto hand_over = [&] {
    std::vector<PeerMemory> memory(1);
    memory[0] = std::move(region->memory);
    client_memory_.unmap(session->identity, std::move(memory), gone);
  };
  if (!within_memory(hand_over)) gone();
}

void SessionRegions::end(const SharedSession& session, std::function<void()> then) {
  if (session->regions.empty()) return then();
  const auto gone = [session, then = std::move(then)] {
    while (!session->regions.empty()) forget(*session, session->regions.any());
    then();
  };
  client_memory_.after_mapping(session->identity, [this, session, gone] {
    client_memory_.unmap(session->identity, session->regions.take_memory(), gone);
  });
}

}  // namespace tally::control
