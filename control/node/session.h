// The state of a session at this node, which the units of the node share: SessionTable keeps it,
// SessionEndpoints attaches it, SessionRegions maps its memory. Control thread only, except for
// `faulted`, which the shards set. The shards borrow its memory from session.attach until the
// session has ended on all of them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/random_number.h"
#include "base/result.h"
#include "control/node/jobs/job_instance.h"
#include "control/node/regions/client_memory.h"
#include "control/node/regions/region_table.h"
#include "control/node/shards/queue_pairs.h"
#include "net/server/service.h"

namespace tally::control {

// The connection of a rank, or of a shard of a child node.
struct Session {
  rpc::ConnectionId connection = 0;
  std::uint64_t identity = 0;  // unique among all sessions of the node, past and present
  std::uint32_t number = 0;    // the session's transport::Peer
  std::uint32_t member = 0;    // index among the job's members: a rank, or a child node after the
                               // ranks
  std::uint32_t credit = 0;    // messages that it may have in flight, in each direction
  JobInstance* instance = nullptr;
  std::string peer;                       // for the log: the client's address, or its process
  std::vector<std::string> hosts;         // hosts where its endpoints of transport fabric may be
  std::uint64_t proof = random_number();  // a connection from another host must show this number
  bool opening = true;                    // its session.open has no answer yet
  bool attached = false;
  bool over_network = false;
  bool ending = false;
  transport::shm::FaultWord faulted{0};
  PeerMemory segment;
  RegionTable regions;
  bool attaching = false;
  std::shared_ptr<QueuePairs::Attempt> attempt;  // the latest attempt
  std::uint32_t failed_attaches = 0;

  void give_up_attempt() const {
    if (attempt != nullptr) attempt->given_up = true;
  }
  // By shard: its number for this member of the job, or kNobody.
  std::vector<std::uint32_t> numbers(std::uint32_t shards) const {
    std::vector<std::uint32_t> numbers;
    for (std::uint32_t i = 0; i < shards; ++i) numbers.push_back(instance->member_at(i, member));
    return numbers;
  }
  // By shard: its index among those that serve the job, or kNoShardIndex.
  std::vector<std::uint32_t> shard_indices(std::uint32_t shards) const {
    std::vector<std::uint32_t> indices;
    for (std::uint32_t i = 0; i < shards; ++i) indices.push_back(instance->shard_index(i));
    return indices;
  }
};

using SharedSession = std::shared_ptr<Session>;
using SharedReply = std::shared_ptr<rpc::Reply>;

inline Error no_session() {
  return {Status::kInvalidArgument, "no session is open on this connection"};
}

inline Error no_memory_for(std::string_view what) {
  return {Status::kNoMemory, fmt::format("the node has no memory for {}: end other jobs, or raise "
                                         "the memory limit of its process or cgroup",
                                         what)};
}

}  // namespace tally::control
