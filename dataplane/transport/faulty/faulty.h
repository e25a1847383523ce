// A decorator over any transport that misbehaves as networks, hosts and processes do, and always in
// the same way for the same seed.
//
// It breaks no promise of the seam: every Pull and Push is still answered once, each loss reported
// once, one peer's notices stay in order. What it does within these promises is up to FaultRates,
// per peer. Unlike other transports it allocates: it is for tests.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "dataplane/transport/faulty/random.h"
#include "dataplane/transport/transport.h"

namespace tally::transport {

// Probabilities, 0 to 1, of what may happen to each thing that passes.
struct FaultRates {
  // Harmless: only time passes, and answers overtake each other.
  double delay_notice = 0;
  double delay_pull = 0;
  double delay_push = 0;
  // The transfer is not made, or made and not confirmed; the answer is fail_status.
  double fail_pull = 0;
  double fail_push = 0;
  Status fail_status = Status::kInternal;
  // The bytes of a pull arrive with one bit turned; what was pulled is as it was.
  double corrupt_pull = 0;
  // Of notices: sent twice; replaced by bytes that no parser accepts; one bit turned.
  double duplicate_notice = 0;
  double garbage_notice = 0;
  double flip_notice = 0;
  // Of requests: the peer dies, or falls silent until resume() or drop().
  double drop_peer = 0;
  double stop_peer = 0;
};

struct FaultyConfig {
  std::uint64_t seed = 1;
  FaultRates rates;                 // of peers without rates of their own
  std::uint32_t longest_delay = 8;  // polls
  // Of the pulls that corrupt_pull strikes, which are spared; none: none is. Asked once for each.
  std::function<bool(const Range&)> spares;
};

enum class FaultEvent : std::uint8_t {
  // What passed, seen from the shard:
  kNotice,
  kCompletion,
  kLost,
  // What was done:
  kDuplicated,
  kGarbled,
  kFlipped,
  kPullFailed,
  kPushFailed,
  kCorrupted,
  kDropped,
  kStopped,
  kResumed,
};
std::string_view name(FaultEvent event);

class Faulty final : public Transport {
 public:
  // `inner` is borrowed.
  Faulty(Transport& inner, const FaultyConfig& config);

  void set_rates(Peer peer, const FaultRates& rates);
  void drop(Peer peer);
  void stop(Peer peer);
  void resume(Peer peer);
  // Called for each event, with the message where there is one; for traces and checks.
  using Observer = std::function<void(FaultEvent, Peer, const RingSlot*)>;
  void observe(Observer observer) { observer_ = std::move(observer); }
  // Requests and answers held back.
  std::size_t held() const;

  std::size_t receive(std::span<Received> out) override;
  std::size_t pulled(std::span<Pulled> out) override;
  std::size_t pushed(std::span<Pushed> out) override;
  std::size_t lost(std::span<Peer> out) override;
  bool covers(const Range& range) const override;
  void pull(std::span<const Pull> pulls) override;
  void release(std::uint32_t handle) override;
  Peer open(std::span<const Peer> peers) override;
  Peer close(std::span<const Peer> peers) override { return inner_.close(peers); }
  void locate(std::span<Landing> landings) override;
  void push(std::span<const Push> pushes) override;
  void complete(std::span<const Message> messages) override;
  void disconnect(Peer peer) override;
  bool arm() override;
  void disarm() override { inner_.disarm(); }
  int fd() const override { return inner_.fd(); }

 private:
  enum class Life : std::uint8_t {
    kAlive,
    kDead,      // the inner transport has reported it: not named to it again
    kReported,  // and the shard knows
  };

  struct PeerState {
    Life life = Life::kAlive;
    bool stopped = false;
    std::uint32_t report_in = 0;  // polls until the shard is told of the loss
    FaultRates rates;
  };

  // A request or an answer that waits for `polls` more polls.
  template <typename T>
  struct Waiting {
    T what;
    Peer peer = 0;
    std::uint32_t polls = 0;
  };

  // The inner transport knows a request by its ticket.
  struct Ticket {
    Peer peer = 0;
    std::uint64_t user = 0;
    Range source;  // of a pull
  };

  // What the shard is given instead of a view.
  struct Corrupted {
    std::vector<std::byte> bytes;
    Span span;
  };

  PeerState& state(Peer peer);
  PeerState& usable(Peer peer);
  void note(FaultEvent event, Peer peer, const RingSlot* message = nullptr) const;
  std::uint32_t delay(double probability);
  std::uint64_t issue(const Range& range, std::uint64_t user);
  Ticket redeem(std::uint64_t ticket);
  void strike(Peer peer);
  template <typename T>
  bool held_back(Waiting<T>& waiting);
  template <typename Request, typename Forward>
  void forward(std::vector<Waiting<Request>>& requests, Forward&& to_inner);
  template <typename Answer>
  std::size_t deliver(std::vector<Waiting<Answer>>& answers, std::span<Answer> out);
  void take_notices();
  void garble(Received& received);
  void take_pulled();
  void corrupt(Pulled& pulled, const Range& source);
  void take_pushed();
  void take_lost();

  Transport& inner_;
  FaultyConfig config_;
  Random random_;
  Observer observer_;
  std::vector<PeerState> peers_;
  std::vector<Ticket> tickets_;
  std::vector<std::uint64_t> free_tickets_;
  std::vector<Waiting<Received>> notices_;
  std::vector<Waiting<Pull>> pulls_;
  std::vector<Waiting<Push>> pushes_;
  std::vector<Waiting<Pulled>> pulled_;
  std::vector<Waiting<Pushed>> pushed_;
  std::unordered_map<std::uint32_t, Corrupted> corrupted_;  // by handle
  std::vector<Peer> blocked_;  // scratch: peers whose earlier notice is held back
};

}  // namespace tally::transport
