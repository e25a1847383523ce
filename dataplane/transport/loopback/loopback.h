// A transport without a wire, for tests and simulations: the workers live in the shard's thread and
// their regions are ordinary memory.
//
// It is a strict one: it throws ContractViolation when the shard releases a view twice, names a
// peer whose loss it has been told of, or opens and closes stores out of turn; and what it hands
// out is spoilt as soon as the shard may no longer look at it.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "dataplane/transport/transport.h"

namespace tally::transport {

struct LoopbackConfig {
  enum class Mode : std::uint8_t {
    // As shared memory: views are the workers' own memory, results are stored there by the kernels.
    kDirect,
    // As a network: pulls are answered a poll later out of a buffer, pushes copy when they arrive.
    kStaged,
  };
  Mode mode = Mode::kDirect;
  // Views come in pieces of this many bytes, a multiple of 8; 0: in one.
  std::size_t span_bytes = 0;
  // Completions that a worker may leave untaken before it is lost; 0: any number.
  std::size_t completion_slots = 0;
};

class Loopback final : public Transport {
 public:
  explicit Loopback(LoopbackConfig config) : config_(config) {}
  ~Loopback() override;
  Loopback(const Loopback&) = delete;
  Loopback& operator=(const Loopback&) = delete;

  // -- the workers' side -----------------------------------------------------------------------
  // Precondition: `peer` is new.
  void connect(Peer peer);
  // `memory` is borrowed and outlives the transport. Region numbers are small.
  void add_region(Peer peer, std::uint32_t region, std::span<std::byte> memory);
  void remove_region(Peer peer, std::uint32_t region);
  void send(Peer peer, const RingSlot& notice);
  // Completions for the worker, copied out and taken; returns how many.
  std::size_t take(Peer peer, std::span<RingSlot> out);
  // The worker is dead, or its connection broken.
  void drop(Peer peer);
  // False: dropped, by either side.
  bool connected(Peer peer) const { return peers_[peer].life == Life::kConnected; }
  // From now on nothing is stored at this worker.
  void fence(Peer peer);
  // From now on this worker's memory is not there when it is touched.
  void take_memory(Peer peer);

  // -- what has not come back --------------------------------------------------------------------
  std::size_t views_held() const { return views_held_; }
  std::size_t pulls_outstanding() const { return pulls_.size(); }
  std::size_t pushes_outstanding() const { return pushes_.size(); }

  // -- Transport ---------------------------------------------------------------------------------
  std::size_t receive(std::span<Received> out) override;
  std::size_t pulled(std::span<Pulled> out) override;
  std::size_t pushed(std::span<Pushed> out) override;
  std::size_t lost(std::span<Peer> out) override;
  bool covers(const Range& range) const override;
  void pull(std::span<const Pull> pulls) override;
  void release(std::uint32_t handle) override;
  Peer open(std::span<const Peer> peers) override;
  Peer close(std::span<const Peer> peers) override;
  void locate(std::span<Landing> landings) override;
  void push(std::span<const Push> pushes) override;
  void complete(std::span<const Message> messages) override;
  void disconnect(Peer peer) override;
  bool arm() override;
  void disarm() override { armed_ = false; }
  int fd() const override { return -1; }  // nobody outside of this thread could ring
  bool armed() const { return armed_; }

 private:
  enum class Life : std::uint8_t { kAbsent, kConnected, kLost, kReported };

  struct PeerState {
    Life life = Life::kAbsent;
    bool fenced = false;
    bool holed = false;
    std::vector<std::span<std::byte>> regions;
    std::vector<RingSlot> completions;
  };

  // What a handle stands for. Generations tell a handle from its predecessor in the same place.
  struct Held {
    bool held = false;
    std::uint16_t generation = 0;
    std::vector<Span> spans;
    std::vector<std::byte> buffer;  // kStaged
  };

  const PeerState& known(Peer peer) const;
  PeerState& known(Peer peer);
  std::span<std::byte> memory_of(const Range& range) const;
  Pulled answer(const Pull& pull);
  Status place(const Push& push);
  Held& hold(std::uint32_t& handle);

  LoopbackConfig config_;
  std::vector<PeerState> peers_;
  std::deque<Received> notices_;
  std::deque<Pull> pulls_;
  std::deque<Push> pushes_;
  // kStaged: how many of those were there at the last poll, and are answered at the next.
  std::size_t ripe_pulls_ = 0;
  std::size_t ripe_pushes_ = 0;
  std::vector<Held> held_;
  std::vector<std::uint32_t> free_held_;
  std::size_t views_held_ = 0;
  bool storing_ = false;
  bool armed_ = false;
};

}  // namespace tally::transport
