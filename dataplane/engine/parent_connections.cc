#include "dataplane/engine/parent_connections.h"

#include <cassert>

#include "dataplane/engine/tiles/tile_record.h"

namespace tally::engine {

ParentConnections::ParentConnections() : received_(kBurst) {}

void ParentConnections::add(protocol::ParentId id, ParentConnection& connection,
                            std::uint32_t shard, const protocol::BufferLayout& layout) {
  assert(connection.buffers(shard).size() >= layout.total_bytes());
  if (id >= parents_.size()) parents_.resize(id + 1);
  parents_[id] = Parent{&connection, shard, layout, false};
}

void ParentConnections::remove(protocol::ParentId id) {
  if (id < parents_.size()) parents_[id] = Parent{};  // else there was no memory for it
}

std::size_t ParentConnections::tiles_down() const {
  std::size_t total = 0;
  for (const Parent& parent : parents_) total += parent.layout.all_down();
  return total;
}

std::span<const RingEntry> ParentConnections::receive(protocol::ParentId id) {
  const Parent& parent = parents_[id];
  if (!parent.live()) return {};
  return std::span(received_).first(parent.connection->receive(parent.shard, received_));
}

void ParentConnections::send(const protocol::TreeMessage& message) {
  const Parent& parent = parents_[message.to];
  parent.connection->send(parent.shard, message.message);
}

std::optional<protocol::ParentId> ParentConnections::next_lost() {
  for (protocol::ParentId id = 0; id < parents_.size(); ++id) {
    Parent& parent = parents_[id];
    if (!parent.live() || !parent.connection->lost()) continue;
    parent.lost = true;
    return id;
  }
  return std::nullopt;
}

std::byte* ParentConnections::buffer_of(const protocol::Tile& tile) const {
  const Parent& parent = parents_[tile.own.parent_id];
  const std::uint64_t offset = tile.partial ? parent.layout.up_offset(tile.own.index)
                                            : parent.layout.down_offset(tile.own.index);
  return parent.connection->buffers(parent.shard).data() + offset;
}

bool ParentConnections::arm(std::vector<pollfd>& polled) {
  for (const Parent& parent : parents_) {
    if (!parent.live()) continue;
    if (!parent.connection->arm()) return false;
    polled.push_back({parent.connection->fd(), POLLIN, 0});
  }
  return true;
}

void ParentConnections::disarm() {
  for (const Parent& parent : parents_) {
    if (parent.connection != nullptr) parent.connection->disarm();
  }
}

}  // namespace tally::engine
