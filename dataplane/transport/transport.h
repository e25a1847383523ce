// The seam between the shard and whatever carries bytes. It speaks in five verbs (receive notices,
// pull, push, complete, fence) plus the news that a peer is lost. One call handles a burst.
//
// One Transport belongs to one shard and is called from that shard's thread alone. Every
// asynchronous verb is answered exactly once: a Pull by a Pulled, a Push by a Pushed, with an error
// status when the peer is lost or the transfer failed. Nothing here allocates, blocks or throws.
#pragma once

#include <cstdint>
#include <span>

#include "base/clock.h"
#include "base/ring.h"
#include "base/status.h"
#include "base/view.h"

namespace tally::transport {

// A session's number on this node, given by control; shards and transports index by it.
using Peer = std::uint32_t;
inline constexpr Peer kNoPeer = UINT32_MAX;

// Bytes in a region that the peer registered.
struct Range {
  Peer peer = 0;
  std::uint32_t region = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

struct Received {
  Peer peer = 0;
  RingSlot message;  // a copy, not yet parsed: wire::parse is where bytes become a notice
};

struct Pull {
  Range source;
  std::uint64_t user = 0;  // comes back in Pulled
};

struct Pulled {
  std::uint64_t user = 0;
  Status status = Status::kOk;
  View view;  // valid until release(handle); empty unless kOk
  std::uint32_t handle = 0;
};

// Where a result is to stand. `direct` is set by locate() when the kernels may store there at once
// (shared memory); else the bytes are summed into a tile of the shard and given to push().
struct Landing {
  Range target;
  std::byte* direct = nullptr;
  // The operation's: how many bytes it has (0: not said), and what its completion for this peer is
  // known by.
  std::uint64_t operation_bytes = 0;
  std::uint32_t cookie = 0;
};

struct Push {
  Landing landing;
  const std::byte* source = nullptr;  // ignored when landing.direct is set: the bytes are there
  std::uint64_t user = 0;             // comes back in Pushed
};

// The bytes are placed at the receiver, or, of an operation small enough for the transport, on
// their way and sure to stand there when its completion comes; `source` may be used again.
struct Pushed {
  std::uint64_t user = 0;
  Status status = Status::kOk;
};

// A completion on its way; follows every push to that peer that has been answered.
struct Message {
  Peer peer = 0;
  RingSlot message;
};

class Transport {
 public:
  virtual ~Transport() = default;

  // Each fills the front of `out` and returns how many; never waits.
  virtual std::size_t receive(std::span<Received> out) = 0;
  virtual std::size_t pulled(std::span<Pulled> out) = 0;
  virtual std::size_t pushed(std::span<Pushed> out) = 0;
  // Each peer is reported lost once; everything outstanding with it is answered with an error.
  virtual std::size_t lost(std::span<Peer> out) = 0;

  // Does the peer have this region, with this range inside? Asked once per notice, so that pull and
  // push need not.
  virtual bool covers(const Range& range) const = 0;

  virtual void pull(std::span<const Pull> pulls) = 0;
  virtual void release(std::uint32_t handle) = 0;  // of a Pulled view

  // Between open(peers) and close(peers) the kernels may read views of these peers' memory and
  // store through `direct`. open() gives kNoPeer, or the peer that has fenced this node off: then
  // its memory may be in use again, nothing may be read or stored, and there is nothing to close.
  // close() gives kNoPeer, or a peer whose memory was not there when it was touched: what was read
  // is void, and the peer is lost.
  virtual Peer open(std::span<const Peer> peers) = 0;
  virtual Peer close(std::span<const Peer> peers) = 0;
  virtual void locate(std::span<Landing> landings) = 0;
  virtual void push(std::span<const Push> pushes) = 0;

  // A peer that cannot take its completion (full ring, broken connection) becomes lost.
  virtual void complete(std::span<const Message> messages) = 0;

  // Ends the connection: the peer broke the protocol. It is reported by lost() like any other.
  virtual void disconnect(Peer peer) = 0;

  // Before a sleep: asks every peer for a doorbell. False: something is there already, do not
  // sleep. After a sleep or a failed arm: disarm(). `fd` becomes readable by a doorbell or a death.
  virtual bool arm() = 0;
  virtual void disarm() = 0;
  virtual int fd() const = 0;
};

}  // namespace tally::transport
