// The node of a parent, as one shard below it sees it: what carries messages between vertices, and
// the memory of this shard that the parent's shards read partial sums from and write results to.
//
// An Uplink has lanes, one for each of the parent's shards. It is made by control and called from
// the shard's thread alone, between Shard::add_uplink() and Shard::remove_uplink(). Nothing here
// allocates, blocks or throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ring.h"

namespace tally::engine {

class Uplink {
 public:
  virtual ~Uplink() = default;

  // A message for the lane's shard, in order. A parent that cannot take it becomes lost.
  virtual void send(std::uint32_t lane, const RingSlot& message) = 0;
  // Messages of the lane's shard, copied out and not yet parsed; fills the front of `out` and
  // returns how many.
  virtual std::size_t receive(std::uint32_t lane, std::span<RingSlot> out) = 0;

  // The slots between this shard and the lane's, laid out as the job's SlotLayout says: theirs to
  // read and write, the same memory until the uplink goes. Results are pushed on from it: where the
  // shard's own transport does not know this memory (onesided/port.h), it copies each once more.
  // `region` is its number at the parent.
  virtual std::span<std::byte> slots(std::uint32_t lane) const = 0;
  virtual std::uint32_t region(std::uint32_t lane) const = 0;

  // The connection is over, with all its lanes; stays so.
  virtual bool lost() const = 0;
  // Ends it: the parent broke the protocol. It is lost from now on.
  virtual void disconnect() = 0;

  // As those of a Transport. One that several lanes of a shard use is armed for each of them.
  virtual bool arm() = 0;
  virtual void disarm() = 0;
  virtual int fd() const = 0;
};

}  // namespace tally::engine
