// The transports of one shard, behind one. Of its thread, but for construction.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/transport/fabric/port.h"
#include "dataplane/transport/mux.h"
#include "dataplane/transport/shm/port.h"
#include "dataplane/transport/verbs/port.h"

namespace tally::control {

namespace onesided = transport::onesided;

// A shard's ways to other machines: none, one or both.
struct NetworkPorts {
  std::unique_ptr<transport::fabric::Port> fabric;
  std::unique_ptr<transport::verbs::Port> verbs;
};

struct Ports {
  Ports(std::size_t max_pulls, NetworkPorts network)
      : shm(max_pulls),
        fabric(std::move(network.fabric)),
        verbs(std::move(network.verbs)),
        mux(ways()) {}

  // The peer comes by `port` from here on. Before it is attached there.
  void route(transport::Peer peer, const transport::Transport& port) {
    const auto all = ways();
    mux.route(peer,
              static_cast<std::size_t>(std::find(all.begin(), all.end(), &port) - all.begin()));
  }
  // From its return on nothing touches the peer's memory. Gives a doorbell, where the peer has one:
  // closing it tells the peer.
  UniqueFd detach(transport::Peer peer) {
    for (onesided::Port* port : networks()) port->detach(peer);
    UniqueFd doorbell = shm.detach(peer);
    mux.forget(peer);
    return doorbell;
  }
  // Detaches the peer, unless it has a queue pair, whose end takes the device its time: then the
  // peer is served no more, and to be detached when what this gives has been dropped, on any
  // thread.
  std::optional<transport::verbs::Connection> part(transport::Peer peer) {
    if (verbs != nullptr) {
      if (auto connection = verbs->part(peer)) return connection;
    }
    detach(peer);
    return std::nullopt;
  }
  // Of a peer on another machine: ports that it has not come by do not know it.
  void add_region(transport::Peer peer, std::uint32_t number, const onesided::Region& region) {
    for (onesided::Port* port : networks()) port->add_region(peer, number, region);
  }
  // False: views of its memory are out, as shm::Port says; networks read into the node's own.
  [[nodiscard]] bool remove_region(transport::Peer peer, std::uint32_t region) {
    for (onesided::Port* port : networks()) port->remove_region(peer, region);
    return shm.remove_region(peer, region);
  }
  std::string why_lost(transport::Peer peer) const {
    std::string why;
    for (const onesided::Port* port : networks()) why += port->why_lost(peer);
    return why;
  }

  transport::shm::Port shm;
  std::unique_ptr<transport::fabric::Port> fabric;  // null where the node does not offer it
  std::unique_ptr<transport::verbs::Port> verbs;    // likewise
  transport::Mux mux;

 private:
  std::vector<onesided::Port*> networks() const {
    std::vector<onesided::Port*> some;
    if (fabric != nullptr) some.push_back(fabric.get());
    if (verbs != nullptr) some.push_back(verbs.get());
    return some;
  }
  std::vector<transport::Transport*> ways() {
    std::vector<transport::Transport*> all{&shm};
    for (onesided::Port* port : networks()) all.push_back(port);
    return all;
  }
};

}  // namespace tally::control
