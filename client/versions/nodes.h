// The nodes of a session: the control connection to each node, their regions, and the nodes of the
// plan's trees. connections() has the connections to their shards, by the same index. Users of this
// class do not depend on the number of nodes; one node is the usual case. One thread at a time uses
// it, as with the session.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "client/connections/connection_table.h"
#include "client/memory/region.h"
#include "dataplane/transport/region_table.h"
#include "net/rpc/rpc_channel.h"

namespace tally::client {

// One node of the session.
struct SessionNode {
  rpc::RpcChannel channel;
  std::unique_ptr<Connection> connection;  // Nodes takes it
  std::vector<std::uint32_t> trees;   // the trees for which this rank sends its notices to the node
  std::vector<std::uint32_t> shards;  // for each entry of `trees`: the shard of the connection
  std::string name{};                 // the node's name in its cluster; empty when it has no
                                      // cluster

  // Name and address for messages: node "n2" at tcp:10.0.0.2:7733.
  std::string title() const;
};

class Nodes {
 public:
  // Precondition: there is at least one node. The trees of all nodes are 0 .. n-1, each once, at
  // shards of their connections.
  explicit Nodes(std::vector<SessionNode> nodes);

  std::size_t size() const { return nodes_.size(); }
  ConnectionTable& connections() { return connections_; }
  const ConnectionTable& connections() const { return connections_; }
  std::uint32_t shards() const { return connections_.shards(); }
  // The shard of each tree.
  const std::vector<std::uint32_t>& shards_of_trees() const { return shards_of_trees_; }
  // "shm", or "shm, fabric" when the nodes differ.
  std::string_view transport() const { return transport_; }
  // The memory must be shared when one node needs it so. It may be an adapter's when all
  // connections have an adapter.
  MemoryNeeds memory_needs() const;

  // Asks whether all nodes accept one more region of so many bytes. A node of an older release that
  // does not know the question counts as yes.
  Outcome room_for(std::uint64_t bytes, Nanos deadline);
  // Registers the region at all nodes under one number and returns the number. `wished` is that
  // number; 0 lets the first node choose. After a failure no node has the region.
  Result<std::uint32_t> add_region(const Region& region, Nanos deadline, std::uint32_t wished = 0);
  Outcome remove_region(const Region& region, Nanos deadline);
  // Undoes add_region(). Withdraws the region also from the connection of a node that does not
  // answer.
  void take_back(const Region& region, std::uint32_t number, Nanos deadline) {
    take_back(size(), region, number, deadline);
    bases_.erase(number);
  }

  // Sends a notice. Its offsets count from the first byte of its regions.
  bool send(std::uint32_t shard, wire::Notice notice,
            std::span<const std::byte> contribution) const;

  // Of all nodes.
  std::vector<std::string> addresses() const;
  // Texts for messages, with name and address: the nodes that are gone, with the reason; all nodes;
  // the nodes of these shards; the nodes that broke a ring.
  std::string why_gone() const;
  std::string titles() const;
  std::string titles_of(const std::vector<std::uint32_t>& shards) const;
  std::string titles_of_broken() const;
  // Closes the session at all nodes. The error is that of the first node that does not answer.
  Outcome close(Nanos deadline);
  // Ends all connections, after the fence. The nodes see that the session has ended.
  void hang_up();

 private:
  std::string titles_where(const std::function<bool(std::size_t)>& chosen) const;
  Outcome add_to(std::size_t node, const Region& region, std::uint32_t& number, Nanos deadline);
  // Adds the node's name when there are several nodes.
  Error of(const SessionNode& node, const Error& error) const;
  Outcome remove_from(std::size_t node, const Region& region, std::uint32_t number, Nanos deadline);
  // From the first `count` nodes.
  void take_back(std::size_t count, const Region& region, std::uint32_t number, Nanos deadline);

  std::vector<SessionNode> nodes_;
  ConnectionTable connections_;
  std::vector<std::uint32_t> shards_of_trees_;
  transport::RegionTable<std::uint64_t> bases_;  // by region: the offset of its first byte in the
                                                 // memory that the node maps
  std::string transport_;
};

// Reads the number of the region from an answer to region.register; 0 when there is no valid
// number.
std::uint32_t read_region(const nlohmann::json& registered);

}  // namespace tally::client
