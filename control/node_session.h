// What the node's control keeps of a session. Of node*.cc alone.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "control/node.h"
#include "dataplane/transport/shm/fault_guard.h"
#include "dataplane/transport/shm/memory.h"

namespace tally::control {

// Mapped from a peer, who may still take it away.
struct PeerMemory {
  PeerMemory() = default;
  PeerMemory(Mapping mapped, transport::shm::FaultWord& faulted)
      : mapping(std::move(mapped)), guard({mapping.data(), mapping.size()}, faulted) {}

  void reset() {
    guard.reset();
    mapping.reset();
  }

  Mapping mapping;
  transport::shm::FaultGuard guard;
};

inline Error no_session() {
  return {Status::kInvalidArgument, "no session is open on this connection"};
}

// `number`: of the member there.
inline void join(engine::Shard& shard, protocol::JobSlot job, std::uint32_t number,
                 transport::Peer peer) {
  if (number != kNobody) shard.protocol().join(job, static_cast<std::uint16_t>(number), peer);
}

// Queue pairs that a helper thread makes for a session, one for each shard.
struct Node::Attempt {
  // By lane; borrowed for the node's life.
  std::vector<const transport::verbs::Port*> ports;
  std::vector<transport::verbs::Address> clients;
  transport::Peer peer = 0;
  std::uint32_t credit = 0;           // that each queue pair is to receive
  std::atomic<bool> given_up{false};  // by the control thread: nobody wants them any more

  std::vector<transport::verbs::Connection> made;  // all, or none
  std::optional<Error> why_not;

  void make();
};

// A rank's connection, or that of a shard of a node below this one. The shards borrow its memory
// from attach() until end() has passed them all.
struct Node::Session {
  rpc::ConnectionId connection = 0;
  std::uint32_t number = 0;  // its transport::Peer
  std::uint32_t member = 0;  // of the forming: a rank, or a branch behind them
  std::uint32_t credit = 0;  // messages that it may have on their way, each way
  Forming* forming = nullptr;
  bool attached = false;
  bool over_network = false;
  bool ending = false;
  transport::shm::FaultWord faulted{0};
  PeerMemory segment;
  std::map<std::uint32_t, PeerMemory> regions;
  bool attaching = false;
  std::shared_ptr<Attempt> attempt;  // the latest
  std::uint32_t failed_attaches = 0;

  void give_up_attempt() const {
    if (attempt != nullptr) attempt->given_up = true;
  }

  // The lowest that no region has.
  std::uint32_t free_region() const {
    std::uint32_t lowest = 1;
    for (const auto& [used, region] : regions) {
      if (used != lowest) break;
      ++lowest;
    }
    return lowest;
  }
};

}  // namespace tally::control
