// A transport without a network, for tests and simulations. The workers run in the shard's thread,
// and their regions are ordinary memory.
//
// It is strict. It throws ContractViolation when the shard breaks a rule of the interface: for
// example when the shard releases a view twice, names a peer after its loss was reported, or calls
// begin_access() and end_access() out of turn. release() spoils the view, so that a test notices a
// shard that still reads it.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "dataplane/transport/transport.h"

namespace tally::transport {

struct LoopbackConfig {
  enum class Mode : std::uint8_t {
    // Like shared memory: views show the workers' own memory, and the kernels store results there.
    kDirect,
    // Like a network: a pull is answered one poll later from a buffer; a push copies its bytes when
    // it is answered.
    kStaged,
  };
  Mode mode = Mode::kDirect;
  // bytes of each piece of a view, a multiple of 8; 0 means one piece
  std::size_t span_bytes = 0;
  // completions that a worker may leave untaken; one more and it is lost; 0 means any number
  std::size_t completion_entries = 0;
};

// The mode's name, for names of test cases.
inline const char* name_of(LoopbackConfig::Mode mode) {
  return mode == LoopbackConfig::Mode::kDirect ? "Direct" : "Staged";
}

class Loopback final : public Transport {
 public:
  explicit Loopback(LoopbackConfig config) : config_(config) {}
  ~Loopback() override;
  Loopback(const Loopback&) = delete;
  Loopback& operator=(const Loopback&) = delete;

  // -- the workers' side -----------------------------------------------------------------------
  // Precondition: this number was never connected before.
  void connect(Peer peer);
  // Borrows the memory, which must outlive the transport. Region numbers must be small, because
  // they are indices.
  void add_region(Peer peer, std::uint32_t region, std::span<std::byte> memory);
  void remove_region(Peer peer, std::uint32_t region);
  // Does nothing when the worker is not connected.
  void send(Peer peer, const RingEntry& notice);
  // Moves completions for the worker to out. Returns their number.
  std::size_t take(Peer peer, std::span<RingEntry> out);
  // Simulates that the worker died or that its connection broke.
  void drop(Peer peer);
  // False after either side has ended the connection.
  bool connected(Peer peer) const { return peers_[peer].life == Life::kConnected; }
  // The worker's fence: from now on nothing is stored in its memory.
  void fence(Peer peer);
  // Simulates that the worker takes its memory away: end_access() then names the worker, which is
  // lost.
  void take_memory(Peer peer);

  // -- what is outstanding -----------------------------------------------------------------------
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
  Peer begin_access(std::span<const Peer> peers) override;
  Peer end_access(std::span<const Peer> peers) override;
  void locate(std::span<Landing> landings) override;
  void push(std::span<const Push> pushes) override;
  void complete(std::span<const Message> messages) override;
  void disconnect(Peer peer, std::string_view why) override;
  bool arm() override;
  void disarm() override { armed_ = false; }
  int fd() const override { return -1; }  // no other thread could ring a doorbell
  bool armed() const { return armed_; }

 private:
  enum class Life : std::uint8_t { kAbsent, kConnected, kLost, kReported };

  struct PeerState {
    Life life = Life::kAbsent;
    bool fenced = false;
    bool holed = false;  // the worker has taken its memory away
    std::vector<std::span<std::byte>> regions;
    std::vector<RingEntry> completions;
  };

  // A view that was given out. A handle is the index in held_ and the generation, so that a handle
  // differs from an earlier one with the same index.
  struct Held {
    bool held = false;
    std::uint16_t generation = 0;
    std::vector<Span> spans;
    std::vector<std::byte> buffer;  // the bytes, in mode kStaged
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
  // In mode kStaged: how many pulls (pushes) at the front the next polls answer. A poll that finds
  // none to answer counts those that wait.
  std::size_t ripe_pulls_ = 0;
  std::size_t ripe_pushes_ = 0;
  std::vector<Held> held_;
  std::vector<std::uint32_t> free_held_;  // indices in held_
  std::size_t views_held_ = 0;
  bool storing_ = false;  // between begin_access() and end_access()
  bool armed_ = false;
};

}  // namespace tally::transport
