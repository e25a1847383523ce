// The common part of the transports whose network reads and writes workers' memory for the shard:
// libfabric with fi_read and fi_write, verbs with RDMA READ and RDMA WRITE. It turns the shard's
// requests into operations on the peers' regions, and the ends of operations into answers. A pull
// is a read into landing memory. A push is a write; it is answered when the bytes are placed. A
// completion is a message after that.
//
// Small operations are eager. A contribution that comes behind its notice is not read again. A
// result is answered before it is placed, if the transport makes sure that the completion arrives
// after the result or with it.
//
// A transport derives from OneSidedTransport. It adds how to attach a peer and how to start an
// operation.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/system/fd.h"
#include "dataplane/transport/onesided/inbox.h"
#include "dataplane/transport/onesided/landing.h"
#include "dataplane/transport/onesided/operation_pool.h"
#include "dataplane/transport/onesided/outgoing.h"
#include "dataplane/transport/onesided/payloads.h"
#include "dataplane/transport/onesided/sessions.h"
#include "dataplane/transport/transport.h"

namespace tally::transport::onesided {

// One thread: the shard's. A peer that breaks the protocol or no longer responds becomes lost; the
// others go on.
class OneSidedTransport : public Transport, protected Network {
 public:
  // -- control, on the shard's thread ----------------------------------------------------------
  // After its return the network touches neither the peer's memory nor this transport's memory for
  // the peer.
  virtual void detach(Peer peer) = 0;
  // add_region() and remove_region() do nothing for a peer that is not attached here.
  void add_region(Peer peer, std::uint32_t number, const Region& region);
  void remove_region(Peer peer, std::uint32_t number);
  std::size_t attached_count() const { return sessions_.attached_count(); }
  // The reason for which the peer was lost. Empty while the transport serves the peer, and when the
  // peer is not attached.
  std::string why_lost(Peer peer) const;
  const LandingMemory& landing_memory() const { return landing_; }

  // -- Transport -------------------------------------------------------------------------------
  std::size_t receive(std::span<Received> out) override;
  std::size_t pulled(std::span<Pulled> out) override { return inbox_.take(out); }
  std::size_t pushed(std::span<Pushed> out) override { return inbox_.take(out); }
  std::size_t lost(std::span<Peer> out) override { return lost(out, monotonic_now()); }
  // As lost(out), at the given time.
  std::size_t lost(std::span<Peer> out, Nanos now) { return sessions_.lost(out, now); }
  bool covers(const Range& range) const override;
  void pull(std::span<const Pull> pulls) override;
  void release(std::uint32_t handle) override;
  // A peer fences by closing its own end of the connection, so the transport has nothing to check.
  Peer begin_access(std::span<const Peer>) override { return kNoPeer; }
  Peer end_access(std::span<const Peer>) override { return kNoPeer; }
  void locate(std::span<Landing>) override {}  // the kernels cannot store there
  void push(std::span<const Push> pushes) override;
  void complete(std::span<const Message> messages) override;
  void disconnect(Peer peer, std::string_view why) override;
  bool arm() override;
  void disarm() override {}
  int fd() const override { return epoll_.get(); }

 protected:
  using Context = onesided::Context;
  using Kind = Context::Kind;
  using Operation = onesided::Operation;
  using Session = onesided::Session;

  struct Memory {
    // bytes of landing memory, for all pulls in flight; control/daemon/networks.cc computes it from
    // the windows, the checksums and the largest tile
    std::size_t landing_bytes = 0;
    // bytes of memory for contributions that come with their notices and are copied
    std::size_t payload_bytes = 0;
    // the memory into which the shard sums what it pushes, for networks that register memory;
    // borrowed
    std::span<std::byte> tiles{};
    // use reserved huge pages for landing memory when enough are free
    bool hugepages = false;
  };
  // Throws std::bad_alloc without memory, std::system_error when descriptors run out.
  explicit OneSidedTransport(const Memory& memory);

  // -- what a transport adds; Network has more ---------------------------------------------------
  // Takes the result of a small operation: the transport makes sure that the result stands at the
  // receiver before the receiver gets the operation's completion. Returns false when it does not
  // take this one; then the result is written, and answered when it is placed.
  virtual bool take_eagerly(Session& session, const Push& push) = 0;
  // Takes what the network has finished or received; calls end() and on_notice().
  virtual void progress() = 0;
  // Returns false when something has arrived already; the shard must not sleep on fd() then.
  virtual bool may_sleep() = 0;
  // The bytes of a pull that has ended well, valid until done_with(). They are at operation.local,
  // where the transport does not say otherwise.
  virtual View result_of(Operation& operation);
  // Nobody needs the bytes of this pull any more. It may have failed.
  virtual void done_with(const Operation&) {}

  // -- what a transport uses ---------------------------------------------------------------------
  Sessions& sessions() { return sessions_; }
  const Sessions& sessions() const { return sessions_; }
  // Answers every operation of the peer and forgets the session. The transport calls it after the
  // peer's connection has ended.
  void remove(Peer peer);
  // Answers the operation with this status, if it is not answered yet.
  void end(Operation& operation, Status status);
  // contribution: the bytes behind the notice; may be empty. kept: owns the bytes, which then must
  // stay as they are until the operation ends; null when the transport must copy them.
  void on_notice(Session& session, Peer peer, const RingEntry& notice,
                 std::span<const std::byte> contribution = {},
                 const std::shared_ptr<const void>& kept = nullptr);
  // Queues an eager write of a copy of the bytes. False when there is no room for it.
  bool eager_write(Session& session, const Push& push);
  // Makes an eager operation of the peer: its end answers no Push. It gets so many bytes from this
  // memory, and end() gives them back; with null it gets none. Returns null when there is no room,
  // or when the peer has the most eager operations already. An operation that waits for pulls must
  // not take landing memory, because the pulls may wait for that memory.
  Operation* eager_operation(Session& session, Peer peer, LandingMemory* memory, std::size_t bytes);
  Operation& operation(std::uint32_t index) { return operations_[index]; }
  LandingMemory& landing() { return landing_; }
  // Says which registered memory has the operation's local bytes. Copies bytes from elsewhere to
  // landing memory first; returns nothing when there is no room for the copy.
  enum class Known : std::uint8_t { kLanding, kTiles };
  std::optional<Known> known(Operation& operation);
  int epoll() const { return epoll_.get(); }

 private:
  bool pull_payload(const Pull& pull);
  void place_pulls();

  LandingMemory landing_;
  Payloads payloads_;
  std::span<std::byte> tiles_;
  UniqueFd epoll_;
  Sessions sessions_;
  OperationPool operations_;
  Outgoing outgoing_;
  Inbox inbox_;
  std::deque<std::uint32_t> unplaced_;  // indices of pulls that wait for landing memory, in order
};

}  // namespace tally::transport::onesided
