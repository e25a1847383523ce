// The transports of one shard, behind one. Of its thread, but for construction.
#pragma once

#include <memory>

#include "dataplane/transport/fabric/port.h"
#include "dataplane/transport/mux.h"
#include "dataplane/transport/shm/port.h"

namespace tally::control {

struct Ports {
  static constexpr std::size_t kShm = 0;
  static constexpr std::size_t kFabric = 1;

  // `network`: null where the node is reached on this host alone.
  Ports(std::uint32_t shard, std::size_t max_pulls,
        std::unique_ptr<transport::fabric::Port> network)
      : shm(shard, max_pulls),
        fabric(std::move(network)),
        mux(fabric == nullptr ? std::vector<transport::Transport*>{&shm}
                              : std::vector<transport::Transport*>{&shm, fabric.get()}) {}

  // From its return on nothing touches the peer's memory. Gives a doorbell, where the peer has one:
  // closing it tells the peer.
  UniqueFd detach(transport::Peer peer) {
    if (fabric != nullptr) fabric->detach(peer);
    UniqueFd doorbell = shm.detach(peer);
    mux.forget(peer);
    return doorbell;
  }
  void remove_region(transport::Peer peer, std::uint32_t region) {
    if (fabric != nullptr) fabric->remove_region(peer, region);
    shm.remove_region(peer, region);
  }

  transport::shm::Port shm;
  std::unique_ptr<transport::fabric::Port> fabric;
  transport::Mux mux;
};

}  // namespace tally::control
