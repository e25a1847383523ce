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

#include <memory>
#include <vector>

#include "base/ring.h"
#include "dataplane/transport/onesided/port.h"
#include "dataplane/transport/verbs/queue_pair.h"

namespace tally::transport::verbs {

struct PortOptions {
  DeviceOptions device;
  std::uint32_t credit = 256;  // operations outstanding per session
  std::size_t landing_bytes = 0;
  // Where the shard sums what is pushed: registered too. Pushes from elsewhere are copied.
  std::span<std::byte> tiles;
};

class Port : public onesided::Port {
 public:
  // `api` is borrowed for the port's life.
  static Result<std::unique_ptr<Port>> open(Api& api, const PortOptions& options);
  ~Port() override;

  // -- control, on the shard's thread ----------------------------------------------------------
  // Precondition: `peer` is not attached. Gives the address of the queue pair that serves it.
  Result<Address> attach(Peer peer, const Address& client);
  void detach(Peer peer) override;
  const Choice& choice() const { return device_->choice(); }

  std::size_t lost(std::span<Peer> out) override;

 private:
  // A queue pair, and the messages that its queues refer to.
  struct Queue {
    CompletionQueue entries;
    std::size_t room = 0;  // for so many sessions
    std::size_t sessions = 0;
  };
  struct Connected : Session {
    Peer peer = 0;
    Queue* queue = nullptr;
    QueuePair pair;
    // To be received, then to be sent, then what comes behind those received.
    std::vector<RingSlot> messages;
    MemoryRegion registered;  // they are
    std::vector<std::uint32_t> free_sends;
    std::uint32_t sends = 0;     // posted and not yet completed
    std::uint32_t receives = 0;  // likewise
    std::uint32_t reads = 0;     // of the sends
  };
  // What a work completion is about, and whose.
  enum class Work : std::uint64_t { kReceive, kSend, kOperation };

  Port(std::unique_ptr<Device> device, const PortOptions& options);

  static Connected& connected(Session& session) { return static_cast<Connected&>(session); }
  static std::uint64_t work_id(Work work, Peer peer, std::uint32_t index);
  Outcome make_channel();
  Outcome register_memory(const PortOptions& options);
  Result<Queue*> queue_with_room();
  Result<Queue*> another_queue();
  bool grow(Queue& queue);
  int entries(std::size_t sessions) const;
  Outcome connect(Connected& session, const Address& client);
  int post_receive(Connected& session, std::uint32_t index);
  static std::span<std::byte> behind(Connected& session, std::uint32_t index);
  void drain(Connected& session);

  bool start(Session& session, Operation& operation) override;
  bool send(Session& session, const RingSlot& message) override;
  bool take_eagerly(Session& session, const Push& push) override;
  void flush(Session& session) override;
  void progress() override { static_cast<void>(poll()); }
  bool may_sleep() override;
  std::size_t poll();
  std::size_t poll(ibv_cq& queue);
  void on_completion(const ibv_wc& completion);
  void on_received(Connected& session, std::uint32_t index, std::uint32_t bytes);
  void take_events();
  void on_event(const ibv_async_event& event);
  bool has_room(const Connected& session) const;
  ibv_send_wr& next_in_batch(std::uint64_t id, std::byte* data, std::size_t bytes,
                             std::uint32_t key);
  bool depart(Operation& operation, std::uint32_t& key);

  std::unique_ptr<Device> device_;
  QueueSizes sizes_;
  std::span<std::byte> tiles_;
  CompletionChannel channel_;
  std::vector<std::unique_ptr<Queue>> queues_;
  MemoryRegion landing_key_;
  MemoryRegion tiles_key_;
  // What goes to one session in one list.
  std::vector<ibv_send_wr> batch_;
  std::vector<ibv_sge> pieces_;
  bool dead_ = false;  // the device is gone
};

}  // namespace tally::transport::verbs
