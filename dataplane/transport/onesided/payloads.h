// Keeps the contributions that came with their notices (eager) until their operation has ended, so
// that the transport need not read them from the worker. Each contribution, called payload, gets a
// region number of its own. The transport puts that number into the notice in place of the worker's
// region. So the shard pulls a payload as it pulls from a region.
//
// There is room for a few payloads of each peer. A contribution without room is dropped: the
// transport reads it from the worker's memory.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/containers/ring.h"
#include "base/view.h"
#include "dataplane/transport/onesided/landing.h"
#include "dataplane/transport/transport.h"

namespace tally::transport::onesided {

// One thread.
class Payloads {
 public:
  static constexpr std::uint32_t kMostEach = 8;  // payloads of a peer at a time

  // bytes: memory for the payloads of all peers that keep() copies.
  explicit Payloads(std::size_t bytes) : memory_(bytes) {}

  // True when the region number is a payload's. A worker's region has no number of 2^31 or more.
  static bool is_payload(std::uint32_t region) { return region >= kFirst; }

  // Both store a payload and return its region number. They return nothing when there is no room,
  // or when the operation has a payload already (its notice came twice). cookie: of the notice and
  // of its completion.
  //
  // keep() copies the bytes. lend() borrows them from the transport: the bytes must stay as they
  // are until the operation ends. The owner keeps them alive until then, and as long as the shard
  // holds a view of them.
  std::optional<std::uint32_t> keep(Peer peer, std::uint32_t cookie,
                                    std::span<const std::byte> bytes);
  std::optional<std::uint32_t> lend(Peer peer, std::uint32_t cookie,
                                    std::span<const std::byte> bytes,
                                    std::shared_ptr<const void> owner);

  // Stores the contribution behind a notice: lends it when kept owns the bytes, and copies it when
  // kept is null. Returns the notice with the payload's region; as it was when nothing is stored.
  RingEntry store(Peer peer, const RingEntry& notice, std::span<const std::byte> contribution,
                  const std::shared_ptr<const void>& kept);

  // The bytes of the range in the peer's own payload. Nothing when the peer has no such payload, or
  // when the range is not inside it.
  std::optional<Span> find(const Range& range) const;
  // hold() counts a view of the payload that the shard gets; release() counts it back.
  // Precondition: find() found the payload before hold().
  void hold(std::uint32_t region);
  void release(std::uint32_t region);

  // The operation has ended for this peer. Does nothing when it has no payload.
  void ended(Peer peer, std::uint32_t cookie);
  // The same, for the operation that the completion ends.
  void completed(const Message& completion);
  // All operations of the peer have ended.
  void forget(Peer peer);

  // The number of payloads, with those whose operation has ended and of which a view is held.
  std::size_t size() const { return payloads_.size() - free_.size(); }

 private:
  static constexpr std::uint32_t kFirst = 1U << 31;

  struct Payload {
    Peer peer = kNoPeer;
    std::uint32_t cookie = 0;
    std::uint32_t users = 0;  // the operation and the views; 0 means a free entry
    bool live = false;        // the operation has not ended
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner{};  // of lend(); null when the bytes are in memory_
  };

  std::optional<std::uint32_t> add(Peer peer, std::uint32_t cookie,
                                   std::span<const std::byte> bytes,
                                   std::shared_ptr<const void> owner);
  void end(std::uint32_t index);
  void let_go(std::uint32_t index);

  LandingMemory memory_;
  std::deque<Payload> payloads_;                // by region number minus kFirst
  std::vector<std::uint32_t> free_;             // indices of free entries
  std::vector<std::vector<std::uint32_t>> of_;  // by Peer: indices of its live payloads
};

}  // namespace tally::transport::onesided
