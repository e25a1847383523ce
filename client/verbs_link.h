// Transport `verbs`, the client's side: a queue pair to each shard, and one completion queue. The
// adapter does the work: the node reads and writes this process's memory without a thread of it.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/link.h"
#include "client/session_events.h"
#include "dataplane/transport/verbs/queue_pair.h"

namespace tally::client {

struct VerbsLinkOptions {
  transport::verbs::DeviceOptions device;
  std::uint32_t shards = 0;
  std::uint32_t credit = 0;
  std::uint32_t eager_bytes = 0;  // that the node takes behind a notice
  std::uint32_t probe_bytes = 0;  // and as the first message
  int watch = -1;  // the control connection: its hang-up means that the node is gone; borrowed
};

class VerbsLink final : public Link {
 public:
  // `api` is borrowed for the link's life.
  static Result<std::unique_ptr<VerbsLink>> make(transport::verbs::Api& api,
                                                 const VerbsLinkOptions& options);
  ~VerbsLink() override;

  // What session.attach tells the node.
  nlohmann::json introduction() const;
  // What it answered: the addresses of the queue pairs that serve this session, by shard. Returns
  // when a probe has gone to each and been acknowledged; kUnsupported when one does not by
  // `deadline`, and which.
  Outcome attached(const nlohmann::json& names, Nanos deadline);

  std::string_view transport() const override { return "verbs"; }
  std::string description() const override { return "verbs (" + device_->choice().why + ")"; }
  std::uint32_t shards() const override { return options_.shards; }
  bool send(std::uint32_t shard, const wire::Notice& notice,
            std::span<const std::byte> contribution) override;
  bool send_message(std::uint32_t shard, const RingSlot& message) override;
  std::size_t eager_bytes() const override { return options_.eager_bytes; }
  std::size_t receive(std::uint32_t shard, std::span<RingSlot> out) override;
  bool broken() const override { return broken_; }
  Result<Offer> offer(const Region& region) override;
  void withdraw(const Region& region) override;
  bool wants_shared_memory() const override { return false; }
  bool has_adapter() const override { return true; }
  bool arm(Nanos until) override;
  void disarm() override {}
  int fd() const override { return events_.fd(); }
  bool hear() override;
  std::string why_gone() const override;
  bool fence(Nanos deadline) override;
  void hang_up() override;

 private:
  struct Shard {
    transport::verbs::QueuePair pair;
    // To be received, then to be sent, then to be sent with a contribution behind.
    std::vector<RingSlot> messages;
    transport::verbs::MemoryRegion registered;
    std::vector<std::uint32_t> free_sends;
    std::uint32_t sent = 0;  // messages on this connection
    struct Contribution {
      bool under_way = false;  // its operation is not over
      std::uint32_t cookie = 0;
    };
    std::array<Contribution, transport::verbs::kEagerSlots> contributions{};
    std::deque<RingSlot> completions;  // come and not yet taken
    bool answered = false;             // the first message has been acknowledged
  };

  explicit VerbsLink(VerbsLinkOptions options) : options_(std::move(options)) {}
  Outcome set_up(transport::verbs::Api& api);
  Outcome add_shard();
  Outcome post_receive(std::uint32_t shard, std::uint32_t index);
  static std::byte* with_contribution(Shard& shard, const wire::Notice& notice,
                                      std::span<const std::byte> contribution);
  static void end_contribution(Shard& shard, const RingSlot& completion);
  std::optional<std::uint32_t> free_send(std::uint32_t shard);
  int post(std::uint32_t shard, std::uint32_t index, const RingSlot& message);
  int post(std::uint32_t shard, std::uint32_t index, const std::byte* message, std::size_t bytes,
           ibv_wr_opcode opcode = IBV_WR_SEND);
  Outcome probe(std::uint32_t shard);
  void poll();
  void on_completion(const ibv_wc& completion);
  Outcome check(const ibv_mr& registration) const;
  void fail(ibv_wc_status status);
  void on_event(ibv_event_type type);

  VerbsLinkOptions options_;
  std::unique_ptr<transport::verbs::Device> device_;
  transport::verbs::CompletionChannel channel_;
  transport::verbs::CompletionQueue queue_;
  std::vector<std::unique_ptr<Shard>> shards_;
  // Empty for what its caller has registered.
  std::map<const Region*, transport::verbs::MemoryRegion> exposed_;
  SessionEvents events_;
  bool broken_ = false;  // a message that cannot be one
  std::string failed_;   // the connection did; how
};

}  // namespace tally::client
