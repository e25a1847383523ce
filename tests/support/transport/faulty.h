// A decorator over any transport, for tests. It makes the faults that networks, hosts and processes
// make, and it makes the same faults for the same seed.
//
// It keeps the promises of the interface: it answers every Pull and Push once, reports each loss
// once, and keeps the order of a peer's notices. FaultRates choose the faults, for each peer. Every
// call may allocate.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "dataplane/transport/transport.h"
#include "tests/support/transport/random.h"

namespace tally::transport {

// Probabilities, 0 to 1, of each fault. A new draw decides about each notice, pull or push.
struct FaultRates {
  // These only cost time; answers may overtake each other.
  double delay_notice = 0;
  double delay_pull = 0;
  double delay_push = 0;
  // The answer is fail_status. The inner transport does not get the request. With a direct landing
  // the kernels have stored the bytes of the push already.
  double fail_pull = 0;
  double fail_push = 0;
  Status fail_status = Status::kInternal;
  // One bit of a pull's bytes is inverted in the view. The worker's memory keeps its value.
  double corrupt_pull = 0;
  double duplicate_notice = 0;  // the shard gets the notice twice
  double garbage_notice = 0;    // random bytes that no parser accepts replace the notice
  double flip_notice = 0;       // one bit of the notice is inverted
  // At a notice, a pull or a push: the peer dies, or is silent until resume() or drop().
  double drop_peer = 0;
  double stop_peer = 0;
};

struct FaultyConfig {
  std::uint64_t seed = 1;
  FaultRates rates;                 // of peers without rates of their own
  std::uint32_t longest_delay = 8;  // polls
  // Called once for each pull that corrupt_pull selects. True: the pull is not corrupted. Empty: no
  // pull is spared.
  std::function<bool(const Range&)> spares;
};

enum class FaultEvent : std::uint8_t {
  // What the shard got or sent:
  kNotice,
  kCompletion,
  kLost,
  // What this transport did:
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

// One thread: the shard's. Throws ContractViolation when the shard breaks a rule of the interface.
class Faulty final : public Transport {
 public:
  // inner is borrowed for the life of this transport.
  Faulty(Transport& inner, const FaultyConfig& config);

  void set_rates(Peer peer, const FaultRates& rates);
  // The peer dies.
  void drop(Peer peer);
  // The peer is silent until resume() or drop(): its notices, requests and answers are held back.
  void stop(Peer peer);
  void resume(Peer peer);
  // The observer is called for each event, for traces and checks. The message is null when the
  // event has none; it is borrowed for the call.
  using Observer = std::function<void(FaultEvent, Peer, const RingEntry*)>;
  void observe(Observer observer) { observer_ = std::move(observer); }
  // The number of notices, requests and answers that are held back.
  std::size_t held() const;

  std::size_t receive(std::span<Received> out) override;
  std::size_t pulled(std::span<Pulled> out) override;
  std::size_t pushed(std::span<Pushed> out) override;
  std::size_t lost(std::span<Peer> out) override;
  bool covers(const Range& range) const override;
  void pull(std::span<const Pull> pulls) override;
  void release(std::uint32_t handle) override;
  Peer begin_access(std::span<const Peer> peers) override;
  Peer end_access(std::span<const Peer> peers) override { return inner_.end_access(peers); }
  void locate(std::span<Landing> landings) override;
  void push(std::span<const Push> pushes) override;
  void complete(std::span<const Message> messages) override;
  void disconnect(Peer peer, std::string_view why) override;
  bool arm() override;
  void disarm() override { inner_.disarm(); }
  int fd() const override { return inner_.fd(); }

 private:
  enum class Life : std::uint8_t {
    kAlive,
    kDead,      // the inner transport has reported the loss and gets no calls for the peer any more
    kReported,  // lost() has reported the loss to the shard
  };

  struct PeerState {
    Life life = Life::kAlive;
    bool stopped = false;
    std::uint32_t report_in = 0;  // polls until lost() reports the loss
    FaultRates rates;
  };

  // A notice, request or answer that is held back for so many more polls.
  template <typename T>
  struct Waiting {
    T what;
    Peer peer = 0;
    std::uint32_t polls = 0;
  };

  // A request that the inner transport has; its user there is the index of the ticket.
  struct Ticket {
    Peer peer = 0;
    std::uint64_t user = 0;
    Range source;  // of a pull; the target of a push
  };

  // A corrupted copy that the shard gets in place of a view.
  struct Corrupted {
    std::vector<std::byte> bytes;
    Span span;
  };

  PeerState& state(Peer peer);
  PeerState& usable(Peer peer);
  void note(FaultEvent event, Peer peer, const RingEntry* message = nullptr) const;
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
  std::vector<Peer> blocked_;  // of receive(): peers with an earlier notice that is held back
};

}  // namespace tally::transport
