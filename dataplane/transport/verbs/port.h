// Transport `verbs`, the node's side, one for each shard: workers on other machines, over RDMA.
// A pull is an RDMA READ into the shard's registered memory, a push an RDMA WRITE out of it (its
// completion says that the bytes are placed), a completion a SEND after that. Notices come by SEND
// into a receive queue as deep as a session's credit. The node gives nobody access to its memory.
//
// One completion queue for all sessions, and more where one cannot have room for all; each session
// has a queue pair of its own, so that an error costs it alone. Everything posted is signalled and
// counted: neither the send queues nor the completion queues can overrun. onesided/port.h has what
// is not particular to verbs.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "base/ring.h"
#include "dataplane/transport/onesided/port.h"
#include "dataplane/transport/verbs/connector.h"

namespace tally::transport::verbs {

struct PortOptions {
  DeviceOptions device;
  std::uint32_t credit = 256;  // of a session, mostly
  std::size_t landing_bytes = 0;
  // Where the shard sums what is pushed: registered too. Pushes from elsewhere are copied.
  std::span<std::byte> tiles;
  bool hugepages = false;  // for landing memory: reserved ones, where enough are free
};

class Port : public onesided::Port {
 public:
  // `api` is borrowed for the life of the port and of what connect() gives.
  static Result<std::unique_ptr<Port>> open(Api& api, const PortOptions& options);
  ~Port() override;

  // -- control, on any thread ------------------------------------------------------------------
  // The slow part of attaching a peer: takes as long as the device takes, and about a second where
  // nobody answers for the client's address. `credit`: operations that it may have outstanding.
  // What it gives may be dropped on any thread, and outlive the port.
  Result<Connection> connect(Peer peer, const Address& client, std::uint32_t credit) const;

  // -- control, on the shard's thread ----------------------------------------------------------
  // Precondition: `peer` is not attached; the connection was made for it by this port. Gives the
  // address of the queue pair that serves it.
  Result<Address> attach(Peer peer, Connection connection);
  // The slow part of detaching a peer, which is not served any more: what this gives has to be
  // dropped, on any thread, before detach(). Nothing where it is not attached.
  std::optional<Connection> part(Peer peer);
  void detach(Peer peer) override;
  const Choice& choice() const { return device_.choice(); }

  std::size_t lost(std::span<Peer> out) override;

 private:
  struct Connected : Session, Connection {
    Peer peer = 0;
    std::vector<std::uint32_t> free_sends;
    std::uint32_t sends = 0;  // posted and not yet completed
    std::uint32_t reads = 0;  // of the sends
  };
  // What a work completion is about, and whose.
  enum class Work : std::uint64_t { kReceive, kSend, kOperation };

  Port(std::shared_ptr<Connector> connector, const PortOptions& options);

  static Connected& connected(Session& session) { return static_cast<Connected&>(session); }
  static std::uint64_t work_id(Work work, Peer peer, std::uint32_t index);
  Outcome register_memory(const PortOptions& options);
  Error failed() const;

  bool start(Session& session, Operation& operation) override;
  bool send(Session& session, const RingSlot& message) override;
  bool take_eagerly(Session& session, const Push& push) override;
  void flush(Session& session) override;
  void progress() override { static_cast<void>(poll()); }
  bool may_sleep() override;
  std::size_t poll();
  std::size_t poll(ibv_cq& queue);
  void on_completion(const ibv_wc& completion);
  void on_received(Connected& session, std::uint32_t index, const ibv_wc& completion);
  void take_events();
  void on_event(const ibv_async_event& event);
  bool has_room(const Connected& session) const;
  ibv_send_wr& next_in_batch(std::uint64_t id, std::byte* data, std::size_t bytes,
                             std::uint32_t key);

  std::shared_ptr<Connector> connector_;
  Device& device_;                    // the connector's
  std::vector<SharedQueue*> queues_;  // of those who are attached, or were; the connector's too
  MemoryRegion landing_key_;
  MemoryRegion tiles_key_;
  // What goes to one session in one list.
  std::vector<ibv_send_wr> batch_;
  std::vector<ibv_sge> pieces_;
  std::atomic<bool> dead_ = false;  // the device is gone; connect() reads it too
};

}  // namespace tally::transport::verbs
