// Transport `verbs`, the client's side: a queue pair for each shard, and one completion queue. The
// adapter does the work: the node reads and writes the memory of this process without any thread of
// the process.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/connections/connection.h"
#include "client/connections/session_events.h"
#include "client/connections/verbs_devices.h"
#include "dataplane/transport/verbs/queue_pair.h"

namespace tally::client {

struct VerbsConnectionOptions {
  transport::verbs::DeviceOptions device;
  std::uint32_t shards = 0;
  std::uint32_t credit = 0;
  std::uint32_t eager_bytes = 0;  // most bytes that the node takes behind a notice
  std::uint32_t probe_bytes = 0;  // most bytes that the node takes as the first message
  int watch = -1;  // the control connection, borrowed; its hang-up means that the node is gone
  std::shared_ptr<VerbsDevices> devices{};  // of all connections of the session; null: the
                                            // connection makes its own
};

class VerbsConnection final : public Connection {
 public:
  // `api` is borrowed for the life of the connection.
  static Result<std::unique_ptr<VerbsConnection>> make(transport::verbs::Api& api,
                                                       const VerbsConnectionOptions& options);
  ~VerbsConnection() override;

  // The parameters of session.attach.
  nlohmann::json introduction() const;
  // Takes the answer to session.attach: the addresses of the queue pairs that serve this session,
  // by shard. Sends a probe to each, and returns when all probes are acknowledged. kUnsupported: a
  // probe was not acknowledged by `deadline`; the message names the addresses. kNodeLost: the node
  // has gone meanwhile.
  Outcome attached(const nlohmann::json& names, Nanos deadline);

  std::string_view transport() const override { return "verbs"; }
  std::string description() const override { return "verbs (" + device().choice().why + ")"; }
  std::uint32_t shards() const override { return options_.shards; }
  bool send(std::uint32_t shard, const wire::Notice& notice,
            std::span<const std::byte> contribution) override;
  bool send_message(std::uint32_t shard, const RingEntry& message) override;
  std::size_t eager_bytes() const override { return options_.eager_bytes; }
  std::size_t receive(std::uint32_t shard, std::span<RingEntry> out) override;
  bool broken() const override { return broken_; }
  Result<Offer> offer(const Region& region) override;
  void withdraw(const Region& region) override;
  bool wants_shared_memory() const override { return false; }
  bool has_adapter() const override { return true; }
  bool arm(Nanos until) override;
  void disarm() override {}
  int fd() const override { return events_.fd(); }
  bool read_events() override;
  bool has_failed() const override { return !failed_.empty() || !device_->failure().empty(); }
  std::string why_gone() const override;
  bool fence(Nanos deadline) override;
  void hang_up() override;

 private:
  struct Shard {
    transport::verbs::QueuePair pair;
    // Messages to receive, then messages to send, then messages to send with a contribution behind
    // them.
    std::vector<RingEntry> messages;
    transport::verbs::MemoryRegion registered;
    std::vector<std::uint32_t> free_sends;
    std::uint32_t sent = 0;  // messages on this connection
    struct Contribution {
      bool under_way = false;  // its operation has not ended
      std::uint32_t cookie = 0;
    };
    std::array<Contribution, transport::verbs::kEagerPieces> contributions{};
    std::deque<RingEntry> completions;  // received, and not taken by receive()
    bool answered = false;              // the first message was acknowledged
  };

  explicit VerbsConnection(VerbsConnectionOptions options) : options_(std::move(options)) {}
  Outcome set_up(transport::verbs::Api& api);
  Outcome add_shard();
  Outcome post_receive(std::uint32_t shard, std::uint32_t index);
  static std::byte* with_contribution(Shard& shard, const wire::Notice& notice,
                                      std::span<const std::byte> contribution);
  static void end_contribution(Shard& shard, const RingEntry& completion);
  std::optional<std::uint32_t> free_send(std::uint32_t shard);
  int post(std::uint32_t shard, std::uint32_t index, const RingEntry& message);
  int post(std::uint32_t shard, std::uint32_t index, const std::byte* message, std::size_t bytes,
           ibv_wr_opcode opcode = IBV_WR_SEND);
  Outcome probe(std::uint32_t shard);
  void poll();
  void on_completion(const ibv_wc& completion);
  Outcome check(const ibv_mr& registration) const;
  void fail(ibv_wc_status status);
  void withdraw_all();
  transport::verbs::Device& device() const { return **device_; }

  VerbsConnectionOptions options_;
  std::shared_ptr<VerbsDevice> device_;
  transport::verbs::CompletionChannel channel_;
  transport::verbs::CompletionQueue queue_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::map<const Region*, bool> exposed_;  // false: the caller has registered the region
  SessionEvents events_;
  bool broken_ = false;  // the node sent a message that no correct node sends
  std::string failed_;   // how the connection failed
};

}  // namespace tally::client
