// The interface between a shard and the code that moves bytes. It has five verbs (receive notices,
// pull, push, complete, fence) and reports lost peers. One call handles a burst.
//
// One Transport belongs to one shard, and only that shard's thread calls it. The transport answers
// every asynchronous verb exactly once: a Pull by a Pulled, a Push by a Pushed. The answer has an
// error status when the peer is lost or the transfer failed. No function blocks. No function
// reports an error by an exception, except that test transports throw ContractViolation
// (contract.h). Transport shm allocates nothing in the steady state; the transports over networks
// allocate when their queues grow.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "base/containers/ring.h"
#include "base/status.h"
#include "base/view.h"

namespace tally::transport {

// A session's number on this node. Control assigns it; shards and transports use it as an index.
using Peer = std::uint32_t;
inline constexpr Peer kNoPeer = UINT32_MAX;  // no peer has this number

// A range of bytes in a region that the peer registered; offset counts from the region's begin.
struct Range {
  Peer peer = 0;
  std::uint32_t region = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// A notice from a peer.
struct Received {
  Peer peer = 0;
  RingEntry message;  // a copy, not yet parsed; wire::parse checks it
};

// A request to read the source.
struct Pull {
  Range source;
  std::uint64_t user = 0;  // comes back in Pulled
};

// The answer to a Pull.
struct Pulled {
  std::uint64_t user = 0;  // of the Pull
  Status status = Status::kOk;
  View view;                 // valid until release(handle); empty unless status is kOk
  std::uint32_t handle = 0;  // for release(); without meaning unless status is kOk
};

// The place of a result in a receiver's memory. locate() sets direct when the kernels may store
// there (shared memory). Otherwise direct is null: the shard sums into a tile of its own and gives
// the bytes to push().
struct Landing {
  Range target;
  std::byte* direct = nullptr;
  std::uint64_t operation_bytes = 0;  // bytes of the whole operation; 0 means not known
  std::uint32_t cookie = 0;           // identifies the operation's completion for this peer
};

// A request to place bytes at a receiver.
struct Push {
  Landing landing;
  // Borrowed until the answer. Ignored when landing.direct is set, because the bytes are there.
  const std::byte* source = nullptr;
  std::uint64_t user = 0;  // comes back in Pushed
};

// The answer to a Push. With status kOk the bytes stand at the receiver. For an operation that is
// small enough for the transport, kOk can also mean: the bytes are on their way, and they stand at
// the receiver before it gets the operation's completion. The shard may use the source again.
struct Pushed {
  std::uint64_t user = 0;  // of the Push
  Status status = Status::kOk;
};

// A completion for a peer. It arrives after the bytes of every Push to that peer that was answered
// before.
struct Message {
  Peer peer = 0;
  RingEntry message;
};

class Transport {
 public:
  virtual ~Transport() = default;

  // Each of the next four fills the front of out, returns the number of entries, and never waits.
  virtual std::size_t receive(std::span<Received> out) = 0;
  virtual std::size_t pulled(std::span<Pulled> out) = 0;
  virtual std::size_t pushed(std::span<Pushed> out) = 0;
  // Reports each lost peer once. The transport answers everything outstanding with a lost peer with
  // an error.
  virtual std::size_t lost(std::span<Peer> out) = 0;

  // True when the peer has this region and the range lies inside it. The shard asks once for each
  // notice, so that it need not ask for each pull and push.
  virtual bool covers(const Range& range) const = 0;

  virtual void pull(std::span<const Pull> pulls) = 0;
  // Gives back the view of a Pulled. Precondition: its status is kOk and it was not released yet.
  virtual void release(std::uint32_t handle) = 0;

  // Between begin_access(peers) and end_access(peers) the kernels may read views of these peers'
  // memory and store through Landing::direct.
  //
  // begin_access() returns kNoPeer, or a peer that has fenced this node off or is no longer served.
  // In the second case the peer may use its memory again: the shard must not read or store, and
  // must not call end_access().
  //
  // end_access() returns kNoPeer, or a peer that took its memory away before a kernel touched it.
  // In the second case the bytes that the kernels read are void, and the peer is lost.
  virtual Peer begin_access(std::span<const Peer> peers) = 0;
  virtual Peer end_access(std::span<const Peer> peers) = 0;
  // Sets the direct of each landing.
  virtual void locate(std::span<Landing> landings) = 0;
  virtual void push(std::span<const Push> pushes) = 0;

  // Sends completions. A peer that cannot take its completion (full ring, broken connection)
  // becomes lost.
  virtual void complete(std::span<const Message> messages) = 0;

  // Ends the connection. The text in why is for the log. lost() reports the peer as it reports
  // others.
  virtual void disconnect(Peer peer, std::string_view why) = 0;

  // Prepares a sleep: asks every peer to ring a doorbell. Returns false when there is something to
  // do already; the shard must not sleep then. The shard calls disarm() after a sleep and after a
  // failed arm(). fd() becomes readable when a doorbell rings or a peer dies; -1 when the transport
  // has no descriptor.
  virtual bool arm() = 0;
  virtual void disarm() = 0;
  virtual int fd() const = 0;
};

}  // namespace tally::transport
