// A parent node as one shard below it sees it. A ParentConnection carries messages between
// vertices. It also has the memory of this shard from which the parent's shards read partial sums
// and to which they write results.
//
// A ParentConnection reaches each of the parent's shards that serve the job. `shard` is the index
// of one of them, and is called the parent's shard here. The control thread makes the
// ParentConnection. Only this shard's thread calls it, between Shard::add_parent_connection() and
// Shard::remove_parent_connection(). Its functions never allocate, block or throw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/containers/ring.h"

namespace tally::engine {

class ParentConnection {
 public:
  virtual ~ParentConnection() = default;

  // Sends a message to the parent's shard, in order. A parent that cannot take the message becomes
  // lost.
  virtual void send(std::uint32_t shard, const RingEntry& message) = 0;
  // Copies messages of the parent's shard, not parsed yet, to the front of `out`. Returns how many.
  virtual std::size_t receive(std::uint32_t shard, std::span<RingEntry> out) = 0;

  // Returns the buffers between this shard and the parent's shard, laid out by the job's
  // BufferLayout. Both sides read and write them. The memory stays the same until the parent
  // connection is removed. The shard pushes results on from it. When the shard's own transport does
  // not know this memory (onesided/port.h), that transport copies each result once more.
  //
  // `region` is the number of this memory at the parent.
  virtual std::span<std::byte> buffers(std::uint32_t shard) const = 0;
  virtual std::uint32_t region(std::uint32_t shard) const = 0;

  // Returns true when the connection has ended, to all the parent's shards. It then stays true.
  virtual bool lost() const = 0;
  // Ends the connection because the parent broke the protocol. The parent connection is lost from
  // then on.
  virtual void disconnect() = 0;

  // These work like the same functions of a Transport. When a shard uses one ParentConnection for
  // several of the parent's shards, it calls arm() for each of them.
  virtual bool arm() = 0;
  virtual void disarm() = 0;
  virtual int fd() const = 0;
};

}  // namespace tally::engine
