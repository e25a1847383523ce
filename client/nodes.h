// The nodes of a session: a control connection and a link to each, and where the plan's trees are.
// Nothing above knows how many nodes there are; one is the usual case. *Lanes* are the shards of
// all links, numbered through.
// Used by one thread at a time, as its session is.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "client/link.h"
#include "client/region.h"
#include "client/rpc_channel.h"

namespace tally::client {

// One of them.
struct SessionNode {
  RpcChannel channel;
  std::unique_ptr<Link> link;
  std::vector<std::uint32_t> trees;   // that this rank's notices go to it for
  std::vector<std::uint32_t> shards;  // by tree: at which shard of the link
  bool gone = false;                  // hear() has found out
};

class Nodes {
 public:
  // Precondition: at least one, and their trees are 0 .. n-1, each once, at shards of their links.
  explicit Nodes(std::vector<SessionNode> nodes);

  std::size_t size() const { return nodes_.size(); }
  std::uint32_t lanes() const { return static_cast<std::uint32_t>(places_.size()); }
  // By tree: its lane.
  const std::vector<std::uint32_t>& lanes_of_trees() const { return lanes_of_trees_; }
  const Link& first() const { return *nodes_.front().link; }
  // "shm", or "shm, fabric" where they differ.
  std::string_view transport() const { return transport_; }
  // Shared where one of them wants it so, an adapter's where all have one.
  MemoryNeeds memory_needs() const;

  // The region gets the same number at all nodes; `wished`: this one, where it is not 0.
  Result<std::uint32_t> add_region(const Region& region, Nanos deadline, std::uint32_t wished = 0);
  Outcome remove_region(const Region& region, Nanos deadline);
  // Undoes an add_region: where a node does not answer, the region is withdrawn all the same.
  void take_back(const Region& region, std::uint32_t number, Nanos deadline) {
    take_back(nodes_, region, number, deadline);
  }
  // Without a word to the nodes: the session is over.
  void withdraw(const Region& region);

  // As Link's, of the lane's node. The notice's offsets count from where its regions' data begins.
  bool send(std::uint32_t lane, wire::Notice notice, std::span<const std::byte> contribution);
  std::size_t eager_bytes(std::uint32_t lane) const;
  std::size_t receive(std::uint32_t lane, std::span<RingSlot> out);

  // As Link's, of all.
  bool broken() const;
  bool arm(Nanos until);
  void disarm();
  // Their descriptors become a part of the epoll's, as long as they are open. False with errno set.
  bool watch_in(int epoll) const;
  bool hear();
  std::string why_gone() const;
  // The addresses of these lanes' nodes, for a message.
  std::string nodes_of(const std::vector<std::uint32_t>& lanes) const;
  bool fence(Nanos deadline);
  void hang_up();
  // Says goodbye to all; the first that does not answer is why it failed.
  Outcome close(Nanos deadline);

 private:
  struct Place {
    std::uint32_t node = 0;
    std::uint32_t shard = 0;  // of its link
  };

  SessionNode& node_of(std::uint32_t lane) { return nodes_[places_[lane].node]; }
  const SessionNode& node_of(std::uint32_t lane) const { return nodes_[places_[lane].node]; }
  Outcome add_to(SessionNode& node, const Region& region, std::uint32_t& number, Nanos deadline);
  static Outcome remove_from(SessionNode& node, const Region& region, std::uint32_t number,
                             Nanos deadline);
  static void take_back(std::span<SessionNode> nodes, const Region& region, std::uint32_t number,
                        Nanos deadline);

  std::vector<SessionNode> nodes_;
  std::vector<Place> places_;  // by lane
  std::vector<std::uint32_t> lanes_of_trees_;
  std::vector<std::uint64_t> bases_;  // by region: where in its shared memory its data begins
  std::string transport_;
};

// By the answer to region.register the number of the region; 0: it says none that could be.
std::uint32_t read_region(const nlohmann::json& registered);

}  // namespace tally::client
