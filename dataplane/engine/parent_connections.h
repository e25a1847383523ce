// The parent connections of a shard.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dataplane/engine/parent_connection.h"
#include "dataplane/protocol/job/vertex.h"
#include "dataplane/protocol/scheduling/tile.h"

namespace tally::engine {

// Keeps the connections with parent nodes, by the ParentId that the protocol uses. It borrows each
// connection from add() to remove(). Only the shard's thread calls it. next_lost() reports a
// connection that has ended; a message to such a connection is lost. Only add() allocates.
class ParentConnections {
 public:
  ParentConnections();

  // Precondition: no connection has this id. Throws std::bad_alloc.
  void add(protocol::ParentId id, ParentConnection& connection, std::uint32_t shard,
           const protocol::BufferLayout& layout);
  // Does nothing when no connection has this id.
  void remove(protocol::ParentId id);
  // All ids are smaller.
  protocol::ParentId size() const { return static_cast<protocol::ParentId>(parents_.size()); }
  // Returns how many tiles down the parents may have in flight here, all together.
  std::size_t tiles_down() const;

  // Returns the next messages of a parent, at most a burst; none when no live connection has this
  // id. They are valid until the next call.
  std::span<const RingEntry> receive(protocol::ParentId id);
  // Precondition of both: a connection has the id.
  void send(const protocol::TreeMessage& message);
  void disconnect(protocol::ParentId id) { parents_[id].connection->disconnect(); }
  // Returns a connection that has been lost, each once. Its messages are not received any more.
  std::optional<protocol::ParentId> next_lost();

  // Returns the tile's buffer in the memory that this shard shares with the tile's parent.
  std::byte* buffer_of(const protocol::Tile& tile) const;

  // Arms the live connections, and appends their descriptors for poll(). Returns false when one of
  // them has a message already. The caller must call disarm() afterwards.
  bool arm(std::vector<pollfd>& polled);
  void disarm();

 private:
  struct Parent {
    ParentConnection* connection = nullptr;  // null: no connection has this id
    std::uint32_t shard = 0;
    protocol::BufferLayout layout;
    bool lost = false;  // next_lost() has returned it
    bool live() const { return connection != nullptr && !lost; }
  };

  std::vector<Parent> parents_;  // index: ParentId
  std::vector<RingEntry> received_;
};

}  // namespace tally::engine
