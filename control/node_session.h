// What the node's control keeps of a session. Of node*.cc alone.
#pragma once

#include <map>
#include <optional>

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

// A rank's connection. The shards borrow its memory from attach() until end() has passed them all.
struct Node::Session {
  rpc::ConnectionId connection = 0;
  std::uint32_t number = 0;  // its transport::Peer
  std::uint32_t rank = 0;
  Forming* forming = nullptr;
  bool attached = false;
  bool over_network = false;
  bool ending = false;
  transport::shm::FaultWord faulted{0};
  PeerMemory segment;
  std::map<std::uint32_t, PeerMemory> regions;
  bool attaching = false;
  std::uint32_t failed_attaches = 0;

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
