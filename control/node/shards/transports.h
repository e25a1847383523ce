// The transports of one shard, joined by a Mux. Only the shard's thread uses them, except for
// construction.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/transport/fabric/fabric_transport.h"
#include "dataplane/transport/mux.h"
#include "dataplane/transport/roce/roce_transport.h"
#include "dataplane/transport/shm/shm_transport.h"
#include "dataplane/transport/verbs/verbs_transport.h"

namespace tally::control {

namespace onesided = transport::onesided;

// A shard's network transports to other machines: none, one or more.
struct NetworkTransports {
  std::unique_ptr<transport::fabric::FabricTransport> fabric;
  std::unique_ptr<transport::verbs::VerbsTransport> verbs;
  // Serves clients of transport verbs. A node has verbs or roce, not both.
  std::unique_ptr<transport::roce::RoceTransport> roce;
};

struct Transports {
  Transports(std::size_t max_pulls, NetworkTransports network)
      : shm(max_pulls),
        fabric(std::move(network.fabric)),
        verbs(std::move(network.verbs)),
        roce(std::move(network.roce)),
        mux(ways()) {}

  // Binds the peer to `transport`. Call this before the peer is attached to the transport.
  void route(transport::Peer peer, const transport::Transport& transport) {
    mux.route(peer, way_of(transport));
  }
  // A connection to a parent node needs turns of `transport`, until end_use().
  void use(const transport::Transport& transport) { mux.use(way_of(transport)); }
  void end_use(const transport::Transport& transport) { mux.end_use(way_of(transport)); }
  // Detaches the peer: nothing touches its memory after this returns. Returns the peer's doorbell
  // when it has one; closing the doorbell notifies the peer.
  UniqueFd detach(transport::Peer peer) {
    for (onesided::OneSidedTransport* transport : networks()) transport->detach(peer);
    UniqueFd doorbell = shm.detach(peer);
    mux.forget(peer);
    return doorbell;
  }
  // Stops serving the peer. Without a queue pair, detaches the peer and returns nullopt. A queue
  // pair takes the device some time to end: then returns it, and the caller must drop it on any
  // thread and detach the peer after that.
  std::optional<transport::verbs::Connection> part(transport::Peer peer) {
    if (verbs != nullptr) {
      if (auto connection = verbs->part(peer)) return connection;
    }
    detach(peer);
    return std::nullopt;
  }
  // Adds a region of a peer on another machine; transports that the peer does not use ignore it.
  void add_region(transport::Peer peer, std::uint32_t number, const onesided::Region& region) {
    for (onesided::OneSidedTransport* transport : networks())
      transport->add_region(peer, number, region);
  }
  // Returns false while views of the region's memory are in use, as shm::ShmTransport says.
  // Networks read into the node's own memory, so they never hold views.
  [[nodiscard]] bool remove_region(transport::Peer peer, std::uint32_t region) {
    for (onesided::OneSidedTransport* transport : networks())
      transport->remove_region(peer, region);
    return shm.remove_region(peer, region);
  }
  std::string why_lost(transport::Peer peer) const {
    std::string why = shm.why_lost(peer);
    for (const onesided::OneSidedTransport* transport : networks())
      why += transport->why_lost(peer);
    return why;
  }

  transport::shm::ShmTransport shm;
  std::unique_ptr<transport::fabric::FabricTransport>
      fabric;                                               // null when the node does not offer it
  std::unique_ptr<transport::verbs::VerbsTransport> verbs;  // null when the node does not offer it
  std::unique_ptr<transport::roce::RoceTransport> roce;     // likewise
  transport::Mux mux;

 private:
  std::vector<onesided::OneSidedTransport*> networks() const {
    std::vector<onesided::OneSidedTransport*> some;
    if (fabric != nullptr) some.push_back(fabric.get());
    if (verbs != nullptr) some.push_back(verbs.get());
    if (roce != nullptr) some.push_back(roce.get());
    return some;
  }
  std::size_t way_of(const transport::Transport& transport) {
    const auto all = ways();
    return static_cast<std::size_t>(std::find(all.begin(), all.end(), &transport) - all.begin());
  }
  std::vector<transport::Transport*> ways() {
    std::vector<transport::Transport*> all{&shm};
    for (onesided::OneSidedTransport* transport : networks()) all.push_back(transport);
    return all;
  }
};

}  // namespace tally::control
