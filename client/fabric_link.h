// Transport `fabric`, the client's side. One thread owns the endpoint and its queue: the node reads
// and writes this process's memory only while somebody makes progress here. It sleeps when there is
// nothing to do.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "client/exposed_memory.h"
#include "client/fabric_inbox.h"
#include "client/link.h"
#include "client/session_events.h"
#include "dataplane/transport/fabric/domain.h"

namespace tally::client {

struct FabricLinkOptions {
  std::string provider;
  std::string local_host;   // where this process's endpoint is bound
  std::string remote_host;  // of the node, for what it says of itself as "here"
  std::uint32_t shards = 0;
  std::uint32_t credit = 0;
  std::uint32_t eager_bytes = 0;  // that the node takes behind a notice; 0: nor does it give any
  int watch = -1;  // the control connection: its hang-up means that the node is gone; borrowed
};

class FabricLink final : public Link {
 public:
  static Result<std::unique_ptr<FabricLink>> make(const FabricLinkOptions& options);
  ~FabricLink() override;

  // What session.attach tells the node.
  nlohmann::json introduction() const;
  // What it answered: the names of the endpoints that serve this session, by shard. They can be
  // reached; kUnsupported: one cannot, by `deadline`. kNodeLost: the node has gone meanwhile.
  Outcome attached(const nlohmann::json& names, Nanos deadline);

  std::string_view transport() const override { return "fabric"; }
  std::string description() const override;
  std::uint32_t shards() const override { return options_.shards; }
  bool send(std::uint32_t shard, const wire::Notice& notice,
            std::span<const std::byte> contribution) override;
  bool send_message(std::uint32_t shard, const RingSlot& message) override;
  std::size_t receive(std::uint32_t shard, std::span<RingSlot> out) override;
  std::size_t eager_bytes() const override { return options_.eager_bytes; }
  bool broken() const override { return broken_.load(std::memory_order_relaxed); }
  Result<Offer> offer(const Region& region) override;
  void withdraw(const Region& region) override;
  bool wants_shared_memory() const override { return false; }
  bool arm(Nanos until) override;
  void disarm() override;
  int fd() const override { return events_.fd(); }
  bool hear() override;
  bool fence(Nanos deadline) override;
  void hang_up() override;

 private:
  using Domain = transport::fabric::Domain;
  template <typename T>
  using Fid = transport::fabric::Fid<T>;

  // A notice, and what goes with it.
  struct Outgoing {
    RingSlot notice;
    std::span<const std::byte> contribution;
  };
  // To a shard's endpoint, before anything else.
  struct Greeting {
    fi_context2 room{};
    bool given = false;  // to the provider
    bool gone = false;   // out on the connection
  };
  // Between the session's thread and the link's own.
  struct Shard {
    explicit Shard(std::size_t slots);
    fi_addr_t address = FI_ADDR_UNSPEC;
    std::string place{};  // the address, for messages
    Greeting greeting{};
    std::vector<RingSlot> notice_slots, completion_slots;
    RingIndices notice_indices, completion_indices;
    RingProducer notices;         // the session's
    RingConsumer notices_out;     // the thread's
    RingProducer completions_in;  // the thread's
    RingConsumer completions;     // the session's
    // Of the notices, in turn. There are more than notices that the session can have given since
    // one that the thread has taken and not yet read: each operation within credit once, those that
    // have taken the place of ones that are over, and cancels.
    std::vector<std::span<const std::byte>> contributions;
    std::uint32_t given = 0;         // the session's: notices so far
    std::uint32_t taken = 0;         // the thread's, likewise
    std::vector<Outgoing> unsent{};  // the thread's: taken, and not yet accepted by the provider
  };
  struct SendBuffer {
    fi_context2 room{};
    bool used = false;
    alignas(kCacheLine) std::array<std::byte, transport::fabric::kLongestMessage> bytes;
  };

  explicit FabricLink(FabricLinkOptions options) : options_(std::move(options)) {}
  Outcome set_up();
  bool give(std::uint32_t shard, const RingSlot& message, std::span<const std::byte> contribution);
  Outcome greet(Nanos deadline);
  Outcome send_greeting(std::uint32_t shard);
  Error no_connection(const Shard& shard) const;
  void run();
  bool send_notices();
  void take_notices(Shard& shard);
  ssize_t send(std::uint32_t shard, const Outgoing& outgoing);
  void on_error();
  void on_completion(const fi_cq_data_entry& entry);
  void on_sent(void* context, bool failed);
  bool progress();
  void on_message(std::span<const std::byte> bytes);
  void sleep();
  void stop();

  FabricLinkOptions options_;
  std::unique_ptr<Domain> domain_;
  FabricInbox inbox_;
  Fid<fid_ep> endpoint_;
  transport::fabric::Name name_;
  std::string last_error_;  // of what was sent
  std::uint64_t secret_ = 0;
  ExposedMemory exposed_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::array<SendBuffer, 8> sends_;  // of notices with contributions; more go without

  SessionEvents events_;
  UniqueFd doorbell_;  // of the session's thread
  UniqueFd wake_;      // of the link's thread
  std::atomic<std::uint32_t> session_sleeps_{0};
  std::atomic<std::uint32_t> thread_sleeps_{0};
  std::atomic<bool> broken_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace tally::client
