// What transports have in common whose network reads and writes workers' memory for the shard
// (libfabric's fi_read and fi_write, verbs' RDMA READ and RDMA WRITE): which memory the peers have,
// operations on it that wait for their turn, are under way and end, and peers of whom nothing is
// heard any more. A pull is a read into landing memory, a push a write that is answered when the
// bytes are placed, a completion a message after that.
//
// Small operations are eager: a contribution that comes behind its notice is not read, and a result
// is answered before it is placed, where the transport sees to it that the completion comes after
// it or with it.
//
// A transport derives from it and adds how a peer is attached and how an operation is started.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fifo.h"
#include "dataplane/transport/onesided/landing.h"
#include "dataplane/transport/onesided/payloads.h"
#include "dataplane/transport/transport.h"

namespace tally::transport::onesided {

// Memory of a peer, as the network knows it.
struct Region {
  std::uint64_t base = 0;  // where the peer says that it begins
  std::uint64_t bytes = 0;
  std::uint64_t key = 0;
};

class Port : public Transport {
 public:
  // -- control, on the shard's thread ----------------------------------------------------------
  // From its return on nothing touches the peer's memory, nor anything of this port for its sake.
  virtual void detach(Peer peer) = 0;
  void add_region(Peer peer, std::uint32_t number, const Region& region);
  void remove_region(Peer peer, std::uint32_t number);
  std::size_t sessions() const;
  // Why the peer is lost; empty while it is not.
  std::string why_lost(Peer peer) const;
  // Where the bytes of pulls land.
  const LandingMemory& landing_memory() const { return landing_; }

  // -- Transport -------------------------------------------------------------------------------
  std::size_t receive(std::span<Received> out) override;
  std::size_t pulled(std::span<Pulled> out) override;
  std::size_t pushed(std::span<Pushed> out) override;
  std::size_t lost(std::span<Peer> out) override;
  bool covers(const Range& range) const override;
  void pull(std::span<const Pull> pulls) override;
  void release(std::uint32_t handle) override;
  Peer open(std::span<const Peer>) override { return kNoPeer; }  // its fence closes its own end
  Peer close(std::span<const Peer>) override { return kNoPeer; }
  void locate(std::span<Landing>) override {}  // nothing can be stored there directly
  void push(std::span<const Push> pushes) override;
  void complete(std::span<const Message> messages) override;
  void disconnect(Peer peer) override;
  bool arm() override;
  void disarm() override {}
  int fd() const override { return epoll_.get(); }

 protected:
  enum class Kind : std::uint8_t { kReceive, kPull, kPush };
  // What stands for something under way with a provider that keeps notes there.
  struct Context {
    std::array<void*, 8> room{};
    Kind kind = Kind::kReceive;
    Peer peer = 0;
  };
  struct Operation : Context {
    std::uint64_t user = 0;
    std::uint64_t address = 0;  // remote
    std::uint64_t key = 0;
    std::byte* local = nullptr;
    std::size_t bytes = 0;
    Span view{};
    std::uint32_t index = 0;          // of itself
    LandingMemory* memory = nullptr;  // that `local` was given from; null: it is another's
    bool under_way = false;           // the provider has it
    bool answered = false;            // a pull: its view is out
    bool eager = false;               // a push that has been answered already
    std::uint32_t payload = 0;        // a pull of one: its region number
  };
  struct Session {
    Session() = default;
    virtual ~Session() = default;
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    bool broken = false;  // no longer served; to be reported by lost()
    std::string why;      // it is
    bool reported = false;
    bool marked = false;           // has something to start at the end of the burst
    std::vector<Region> regions;   // by number; 0 is none
    Fifo<std::uint32_t> reads;     // operations that have not been started yet
    Fifo<std::uint32_t> writes;    // of which these go first: they end what was begun
    Fifo<RingSlot> completions;    // and messages
    std::size_t eager_writes = 0;  // of the writes; they go before the next completion
    std::size_t eager = 0;         // operations that answer to nobody, these and others
    std::size_t notices = 0;       // come and not yet taken by the shard
    // For the watch on peers that do nothing any more.
    std::size_t under_way = 0;  // operations that the provider has
    std::uint64_t ended = 0;    // and that it had
    std::uint64_t ended_seen = 0;
    Nanos stalled = 0;  // for so long none has
  };

  struct Memory {
    // For all pulls in flight; twice the window, and the largest tile.
    std::size_t landing_bytes = 0;
    // For contributions that come with their notices and are copied.
    std::size_t payload_bytes = 0;
    // Where the shard sums what is pushed, for networks that want to know memory; borrowed.
    std::span<std::byte> tiles{};
    // For what lands: reserved ones, where enough are free.
    bool hugepages = false;
  };
  explicit Port(const Memory& memory);

  // -- what a transport adds ---------------------------------------------------------------------
  // Hands the operation to the network, which has it from then on until end(). False: not yet, or
  // the session is refused.
  virtual bool start(Session& session, Operation& operation) = 0;
  virtual bool send(Session& session, const RingSlot& message) = 0;
  // Takes the result of a small operation: it will stand when the operation's completion comes.
  // False: not this one; it is written, and answered when it is placed.
  virtual bool take_eagerly(Session& session, const Push& push) = 0;
  // What was started in this burst goes out now.
  virtual void flush(Session&) {}
  // Takes what the network has done: calls end() and on_notice().
  virtual void progress() = 0;
  // False: something is there already, do not sleep on fd().
  virtual bool may_sleep() = 0;

  // -- what it uses ------------------------------------------------------------------------------
  Session* attached(Peer peer) const {
    return peer < sessions_.size() ? sessions_[peer].get() : nullptr;
  }
  Session* serving(Peer peer) const;
  void add(Peer peer, std::unique_ptr<Session> session);
  // Every operation of the peer's is answered, then it is forgotten. After its connection is gone.
  void remove(Peer peer);
  void end(Operation& operation, Status status);
  void on_notice(Session& session, Peer peer, const RingSlot& notice);
  // With the contribution behind it. `kept`: where the bytes stay as they are until the operation
  // ends; null: they are copied.
  void on_notice(Session& session, Peer peer, const RingSlot& notice,
                 std::span<const std::byte> contribution, const std::shared_ptr<const void>& kept);
  // A write that nobody waits for, of bytes that are copied. False: there is no room.
  bool eager_write(Session& session, const Push& push);
  // To the target's peer, with so much of this memory, which end() gives back (null: with none);
  // answers to nobody. Null: there is no room, or the peer has enough of them. What waits for pulls
  // must not lie in landing memory: the pulls may wait for that.
  Operation* eager_operation(Session& session, const Range& target, LandingMemory* memory,
                             std::size_t bytes);
  // The network has it.
  static void under_way(Session& session, Operation& operation);
  // How the network knows it; nothing where the peer has no such memory.
  struct Remote {
    std::uint64_t address = 0;
    std::uint64_t key = 0;
  };
  Remote remote(const Range& range) const;
  static void refuse(Session& session, std::string why);
  const auto& all_sessions() const { return sessions_; }
  Operation& operation(std::uint32_t index) { return operations_[index]; }
  LandingMemory& landing() { return landing_; }
  // Memory that a network knows. What an operation has elsewhere is copied to landing memory first;
  // nothing: there is no room for it.
  enum class Known : std::uint8_t { kLanding, kTiles };
  std::optional<Known> known(Operation& operation);
  int epoll() const { return epoll_.get(); }

 private:
  const Region* region_of(const Range& range) const;
  bool pull_payload(const Pull& pull);
  void end_payload(const Message& message);
  std::uint32_t take_operation(Kind kind, const Range& range, std::uint64_t user);
  void place_pulls();
  void mark(Session& session);
  void start_marked();
  void send_waiting(Session& session);
  bool start_all(Session& session, Fifo<std::uint32_t>& waiting);
  void give_back(Operation& operation);
  static void watch(Session& session, Nanos passed);

  LandingMemory landing_;
  Payloads payloads_;
  std::span<std::byte> tiles_;
  UniqueFd epoll_;
  std::vector<std::unique_ptr<Session>> sessions_;  // by Peer
  std::vector<Session*> marked_;
  bool backlog_ = false;  // some session has what its connection does not take yet
  Nanos last_watch_ = 0;
  std::deque<Operation> operations_;  // by index; addresses stay
  std::vector<std::uint32_t> free_operations_;
  std::deque<std::uint32_t> unplaced_;  // pulls without landing memory, in order
  std::deque<Received> received_;
  std::deque<Pulled> pulled_;
  std::deque<Pushed> pushed_;
};

}  // namespace tally::transport::onesided
