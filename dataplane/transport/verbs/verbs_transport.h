// Transport verbs, the node's side: workers are on other machines, over RDMA. Each shard has one
// VerbsTransport. A pull is an RDMA READ into the shard's registered memory. A push is an RDMA
// WRITE out of it; the work completion means that the bytes are placed. A completion is a SEND
// after that. Notices come by SEND into a receive queue with as many entries as the session's
// credit. The node gives no peer access to its memory. onesided/onesided_transport.h has the part
// that does not depend on verbs.
//
// All sessions share one completion queue; there are more when one cannot have room for all. Each
// session has a queue pair of its own, so that an error affects only that session. Every request is
// signalled and counted, so neither the send queues nor the completion queues can overrun.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "base/containers/ring.h"
#include "dataplane/transport/onesided/onesided_transport.h"
#include "dataplane/transport/verbs/connector.h"

namespace tally::transport::verbs {

struct TransportOptions {
  DeviceOptions device;
  std::uint32_t credit = 256;  // the credit of most sessions
  std::size_t landing_bytes = 0;
  // The memory into which the shard sums what it pushes; borrowed and registered. Pushes from
  // elsewhere are copied.
  std::span<std::byte> tiles;
  bool hugepages = false;  // use reserved huge pages for landing memory when enough are free
};

// One thread, the shard's, except for connect().
class VerbsTransport : public onesided::OneSidedTransport {
 public:
  // api is borrowed for the life of the transport and of the Connections from connect().
  static Result<std::unique_ptr<VerbsTransport>> open(Api& api, const TransportOptions& options);
  ~VerbsTransport() override;

  // -- control, on any thread ------------------------------------------------------------------
  // The slow part of attaching a peer. The device decides how long it takes; when no machine
  // answers at the client's address, it takes about a second. credit: operations that the peer may
  // have outstanding. The Connection may be destroyed on any thread, and may outlive the transport.
  Result<Connection> connect(Peer peer, const Address& client, std::uint32_t credit) const;

  // -- control, on the shard's thread ----------------------------------------------------------
  // Returns the address of the queue pair that serves the peer. Precondition: peer is not attached,
  // and connect() of this transport made the connection for it.
  Result<Address> attach(Peer peer, Connection connection);
  // The slow part of detaching a peer; the transport serves the peer no more. The caller must
  // destroy the Connection before detach(), on any thread. Nothing when the peer is not attached.
  std::optional<Connection> part(Peer peer);
  void detach(Peer peer) override;
  const Choice& choice() const { return device_.choice(); }

  std::size_t lost(std::span<Peer> out) override;

 private:
  struct Connected : Session, Connection {
    Peer peer = 0;
    std::vector<std::uint32_t> free_sends;
    std::uint32_t sends = 0;  // requests in the send queue that have not completed
    std::uint32_t reads = 0;  // RDMA READs among them
  };
  // The kind of request that a work completion ends. A wr_id has the kind, the peer and an index.
  enum class Work : std::uint64_t { kReceive, kSend, kOperation };

  VerbsTransport(std::shared_ptr<Connector> connector, const TransportOptions& options);

  static Connected& connected(Session& session) { return static_cast<Connected&>(session); }
  static std::uint64_t work_id(Work work, Peer peer, std::uint32_t index);
  Outcome register_memory(const TransportOptions& options);
  Error failed() const;

  bool start(Session& session, Operation& operation) override;
  bool send(Session& session, const RingEntry& message) override;
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
  Device& device_;  // owned by connector_
  // The completion queues of the peers that are or were attached; owned by connector_.
  std::vector<SharedQueue*> queues_;
  MemoryRegion landing_key_;
  MemoryRegion tiles_key_;
  std::vector<ibv_send_wr> batch_;  // the requests that flush() posts in one list
  std::vector<ibv_sge> pieces_;     // their memory, by index
  std::atomic<bool> dead_ = false;  // the device failed; connect() reads it on other threads
};

}  // namespace tally::transport::verbs
