// Memory of workers on this machine: mapped here, told to the shards.
#include <fmt/format.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "base/debug_steps.h"
#include "control/node.h"
#include "control/node_session.h"

namespace tally::control {

using nlohmann::json;
namespace shm = transport::shm;

void Node::register_region(const SharedSession& session, rpc::Request& request, rpc::Reply reply) {
  if (session->over_network) return register_remote(session, request, std::move(reply));
  rpc::Params params(request.params);
  const auto bytes = params.number("bytes", 1, wire::kMaxBytes);
  const auto wished = wished_region(params);
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  if (request.fds.size() != 1) {
    return reply.error(Status::kInvalidArgument, "region.register: expected 1 descriptor, a memfd");
  }
  const auto free = region_number(*session, wished);
  if (!free) return reply.error(free.error());
  if (auto room = admission_.reserve(*session->forming, bytes); !room) {
    return reply.error(room.error());
  }
  const std::uint32_t id = *free;
  auto mapping = shm::map_peer(request.fds[0].get(), bytes, "region");
  if (!mapping) {
    Admission::give_back(*session->forming, bytes);
    return reply.error(mapping.error());
  }
  std::byte* data = mapping->data();
  session->regions[id] = PeerMemory(std::move(mapping).value(), session->faulted);
  auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  shards_.on_each([peer = session->number, id, data, bytes](
                      auto, auto&, Ports& ports) { ports.shm.add_region(peer, id, data, bytes); },
                  [answer, id] {
                    debug_step(DebugStep::kNodeRegionAdded);
                    answer->result({{"region", id}});
                  });
}

std::uint64_t Node::wished_region(rpc::Params& params) const {
  return params.number_or("region", 1, options_.limits.max_regions, 0);
}

Result<std::uint32_t> Node::region_number(const Session& session, std::uint64_t wished) {
  const auto number = static_cast<std::uint32_t>(wished);
  if (number == 0) return session.free_region();
  if (!session.regions.contains(number)) return number;
  return Error{Status::kInvalidArgument,
               fmt::format("region {} of this session is taken: deregister it first, or leave "
                           "\"region\" out",
                           number)};
}

// What a shard may still read stays mapped: its owner asks again when its operations are over, or
// leaves it to the session's end.
void Node::deregister_region(const SharedSession& session, rpc::Request& request,
                             rpc::Reply reply) {
  rpc::Params params(request.params);
  const auto id = static_cast<std::uint32_t>(params.number("region", 1, UINT32_MAX));
  if (const auto wrong = params.finish()) return reply.error(*wrong);
  if (!session->regions.contains(id)) {
    return reply.error(Status::kBadRegion, fmt::format("this session has no region {}", id));
  }
  auto answer = std::make_shared<rpc::Reply>(std::move(reply));
  auto in_use = std::make_shared<std::atomic<bool>>(false);  // by some shard
  shards_.on_each(
      [peer = session->number, id, in_use](auto, auto&, Ports& ports) {
        if (!ports.remove_region(peer, id)) *in_use = true;
      },
      [session, id, answer, in_use] {
        if (*in_use) {
          return answer->error(Status::kAgain,
                               fmt::format("region {} is read by an operation that is under way: "
                                           "take its completion, then deregister the region again",
                                           id));
        }
        const auto found = session->regions.find(id);
        if (found != session->regions.end()) {
          Admission::give_back(*session->forming, found->second.mapping.size());
          session->regions.erase(found);
        }
        debug_step(DebugStep::kNodeRegionRemoved);
        answer->result(json::object());
      });
}

}  // namespace tally::control
