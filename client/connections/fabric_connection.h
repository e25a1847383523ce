// Transport `fabric`, the client's side. A thread of the session (fabric_progress.h) owns the
// endpoint and its completion queue, and makes progress. Without progress the node can neither read
// nor write the memory of this process.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "base/system/fd.h"
#include "client/connections/connection.h"
#include "client/connections/fabric_inbox.h"
#include "client/connections/fabric_progress.h"
#include "client/connections/session_events.h"
#include "client/memory/exposed_memory.h"
#include "dataplane/transport/fabric/domain.h"

namespace tally::client {

struct FabricConnectionOptions {
  std::string provider;
  std::string local_host;   // the address to which this process's endpoint is bound
  std::string remote_host;  // the node's host, for addresses that the node gives as "here"
  std::uint32_t shards = 0;
  std::uint32_t credit = 0;
  std::uint32_t eager_bytes = 0;  // most bytes that the node takes behind a notice; 0: neither side
                                  // sends any
  bool eager_results = true;      // the node may send as many behind a completion
  int watch = -1;  // the control connection, borrowed; its hang-up means that the node is gone
  std::shared_ptr<FabricProgress> progress{};  // null: the connection makes its own
};

// A notice, and the contribution that goes with it.
struct OutgoingNotice {
  RingEntry notice;
  std::span<const std::byte> contribution;
};

// Notices with their contributions, from the session's thread to the progress thread.
class NoticeQueue {
 public:
  // `entries` must be a power of two.
  explicit NoticeQueue(std::size_t entries);
  // The session's thread adds a notice. False when the queue is full.
  bool push(const RingEntry& notice, std::span<const std::byte> contribution);
  // The progress thread appends the next notices to `out`.
  void pop(std::vector<OutgoingNotice>& out);
  bool empty() { return consumer_.empty(); }

 private:
  std::vector<RingEntry> entries_;
  RingIndices indices_;
  RingProducer producer_;
  RingConsumer consumer_;
  // Used in turn. There are twice as many as entries, because pop() frees entries before it reads
  // their contributions.
  std::vector<std::span<const std::byte>> contributions_;
  std::uint32_t pushed_ = 0;
  std::uint32_t popped_ = 0;
};

class FabricConnection final : public Connection, private FabricWork {
 public:
  static Result<std::unique_ptr<FabricConnection>> make(const FabricConnectionOptions& options);
  ~FabricConnection() override;

  // The parameters of session.attach.
  nlohmann::json introduction() const;
  // Takes the answer to session.attach: the endpoints that serve this session, by shard. Success
  // means that all endpoints are connected. kUnsupported: an endpoint cannot be reached by
  // `deadline`. kNodeLost: the node has gone meanwhile.
  Outcome attached(const nlohmann::json& names, Nanos deadline);

  std::string_view transport() const override { return "fabric"; }
  std::string description() const override;
  std::uint32_t shards() const override { return options_.shards; }
  bool send(std::uint32_t shard, const wire::Notice& notice,
            std::span<const std::byte> contribution) override;
  bool send_message(std::uint32_t shard, const RingEntry& message) override;
  std::size_t receive(std::uint32_t shard, std::span<RingEntry> out) override;
  std::size_t eager_bytes() const override { return options_.eager_bytes; }
  bool broken() const override { return broken_.load(std::memory_order_relaxed); }
  Result<Offer> offer(const Region& region) override;
  void withdraw(const Region& region) override;
  bool wants_shared_memory() const override { return false; }
  bool arm(Nanos until) override;
  void disarm() override;
  int fd() const override { return events_.fd(); }
  bool read_events() override;
  bool fence(Nanos deadline) override;
  void hang_up() override;

 private:
  using Domain = transport::fabric::Domain;
  template <typename T>
  using Fid = transport::fabric::Fid<T>;

  // The first message to a shard's endpoint. It makes the connection.
  struct Greeting {
    fi_context2 room{};
    bool given = false;  // the provider has it
    bool gone = false;   // the connection has sent it
  };
  // What the session's thread and the progress thread exchange.
  struct Shard {
    explicit Shard(std::size_t entries);
    fi_addr_t address = FI_ADDR_UNSPEC;
    std::string place{};  // the address as text, for messages
    Greeting greeting{};
    NoticeQueue notices;
    std::vector<RingEntry> completion_entries;
    RingIndices completion_indices;
    RingProducer completions_in;           // of the progress thread
    RingConsumer completions;              // of the session's thread
    std::vector<OutgoingNotice> unsent{};  // notices that the provider has not accepted yet; of the
                                           // progress thread
  };
  struct SendBuffer {
    fi_context2 room{};
    bool used = false;
    alignas(kCacheLine) std::array<std::byte, transport::fabric::kLongestMessage> bytes;
  };

  explicit FabricConnection(FabricConnectionOptions options) : options_(std::move(options)) {}
  Outcome set_up();
  bool give(std::uint32_t shard, const RingEntry& message, std::span<const std::byte> contribution);
  Outcome greet(Nanos deadline);
  Outcome send_greeting(std::uint32_t shard);
  Error no_connection(const Shard& shard) const;
  // -- FabricWork: the progress thread --
  bool turn() override;
  bool has_work() override;
  bool is_held_up() const override;
  bool may_sleep() override { return domain_->may_sleep(); }
  int wait_fd() const override { return domain_->wait_fd(); }

  bool send_notices();
  ssize_t send(std::uint32_t shard, const OutgoingNotice& outgoing);
  void on_error();
  void on_completion(const fi_cq_data_entry& entry);
  void on_sent(void* context, bool failed);
  bool progress();
  void on_message(std::span<const std::byte> bytes);
  void stop();

  FabricConnectionOptions options_;
  std::unique_ptr<Domain> domain_;
  FabricInbox inbox_;
  Fid<fid_ep> endpoint_;
  transport::fabric::Name name_;
  std::string last_error_;  // of a message that was sent
  std::uint64_t secret_ = 0;
  ExposedMemory exposed_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::array<SendBuffer, 8> sends_;  // for notices with contributions; when none is free, a notice
                                     // goes without its contribution

  SessionEvents events_;
  UniqueFd doorbell_;  // wakes the session's thread
  std::atomic<std::uint32_t> session_sleeps_{0};
  std::atomic<bool> broken_{false};
  FabricThread* thread_ = nullptr;  // null when no thread serves this connection
};

}  // namespace tally::client
