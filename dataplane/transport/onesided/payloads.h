// Contributions that came with their notices (eager), kept until their operation has ended: what
// would be pulled is here already. Each stands under a region number of its own, which takes the
// place of the worker's region in the notice; so whoever pulls need not know.
//
// There is room for a few of each peer. What has none is forgotten: the contribution is still in
// the worker's memory and is pulled from there.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/view.h"
#include "dataplane/transport/onesided/landing.h"
#include "dataplane/transport/transport.h"

namespace tally::transport::onesided {

// One thread.
class Payloads {
 public:
  static constexpr std::uint32_t kMostEach = 8;  // of a peer at a time

  // `bytes`: of all that are copied.
  explicit Payloads(std::size_t bytes) : memory_(bytes) {}

  // Region numbers from here on are payloads; nobody registers so many regions.
  static bool is_payload(std::uint32_t region) { return region >= kFirst; }

  // The region number under which it stands from now on; nothing where there is no room, or the
  // operation has one already (its notice has come twice).
  // `cookie`: of the notice's completion. keep() copies; lend() takes memory of the transport's
  // that stays as it is until then; it lives as long as a view of it is out.
  std::optional<std::uint32_t> keep(Peer peer, std::uint32_t cookie,
                                    std::span<const std::byte> bytes);
  std::optional<std::uint32_t> lend(Peer peer, std::uint32_t cookie,
                                    std::span<const std::byte> bytes,
                                    std::shared_ptr<const void> owner);

  // Bytes of the peer's own payload; nothing where it has no such, or not so many.
  std::optional<Span> find(const Range& range) const;
  // A view of it is out; is back. Precondition: find() has found it.
  void hold(std::uint32_t region);
  void release(std::uint32_t region);

  // The operation has ended for this peer. Does nothing where it brought no payload.
  void ended(Peer peer, std::uint32_t cookie);
  // All of the peer's operations have.
  void forget(Peer peer);

  std::size_t size() const { return payloads_.size() - free_.size(); }

 private:
  static constexpr std::uint32_t kFirst = 1U << 31;

  struct Payload {
    Peer peer = kNoPeer;
    std::uint32_t cookie = 0;
    std::uint32_t users = 0;  // the operation, and the views; 0: none stands here
    bool live = false;        // the operation goes on
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner{};  // null: they lie in memory_
  };

  std::optional<std::uint32_t> add(Peer peer, std::uint32_t cookie,
                                   std::span<const std::byte> bytes,
                                   std::shared_ptr<const void> owner);
  void end(std::uint32_t index);
  void let_go(std::uint32_t index);

  LandingMemory memory_;
  std::deque<Payload> payloads_;
  std::vector<std::uint32_t> free_;
  std::vector<std::vector<std::uint32_t>> of_;  // by peer: which are live
};

}  // namespace tally::transport::onesided
