// The connection of one of this node's shards with the node above it, by what clients have: a
// session there, a link to its shards, and the slots as regions of their own.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "client/link.h"
#include "client/region.h"
#include "client/rpc_channel.h"
#include "dataplane/engine/uplink.h"
#include "dataplane/protocol/vertex.h"

namespace tally::control {

// Whoever waits for a connection can be told not to. Any thread.
class Patience {
 public:
  explicit Patience(Nanos deadline) : deadline_(deadline) {}

  void end();
  bool over() const { return ended_.load(std::memory_order_relaxed); }
  Nanos deadline() const { return deadline_; }
  // end() shuts this connection down, until the next takes its place; -1: none.
  void watch(int socket);

 private:
  const Nanos deadline_;
  std::atomic<bool> ended_{false};
  std::mutex mutex_;  // of what follows
  UniqueFd socket_;   // a duplicate, which nobody closes meanwhile
};

class LinkUplink final : public engine::Uplink {
 public:
  struct Options {
    std::string address;     // of the node above
    std::string node;        // this one's name
    std::uint32_t lane = 0;  // and which of its shards, as its lanes are numbered
    std::string job;
    std::string token;
    std::uint32_t epoch = 1;
    std::uint32_t ranks = 1;
    std::vector<std::uint32_t> lanes;  // of the node above that it has to do with
    protocol::SlotLayout slots;
  };

  // Blocks. A node that is not there yet, or does not know of the job yet, is asked again until
  // `patience` ends.
  static Result<std::unique_ptr<LinkUplink>> connect(const Options& options, Patience& patience);

  // Says goodbye, and waits a little for the answer: no shard may use it any more.
  ~LinkUplink() override;

  // "shm", and which way was chosen and why.
  const std::string& description() const { return description_; }
  // No rank is left below this node in these trees. Waits a little for the answer; no other call
  // goes on.
  void say_empty(const std::vector<std::uint32_t>& trees);
  // The node above sees the end of the connection. Any thread, at any time.
  void hang_up() const;

  // -- engine::Uplink: the shard's thread alone ---------------------------------------------------
  void send(std::uint32_t lane, const RingSlot& message) override;
  std::size_t receive(std::uint32_t lane, std::span<RingSlot> out) override;
  std::span<std::byte> slots(std::uint32_t lane) const override;
  std::uint32_t region(std::uint32_t lane) const override;
  bool lost() const override;
  void disconnect() override { lost_ = true; }
  bool arm() override { return link_->arm(kForever); }
  void disarm() override { link_->disarm(); }
  int fd() const override { return link_->fd(); }

 private:
  LinkUplink(client::RpcChannel channel, std::unique_ptr<client::Link> link,
             std::string description);

  static Result<std::unique_ptr<LinkUplink>> attempt(const Options& options, Patience& patience);
  Outcome add_slots(std::uint32_t lane, const protocol::SlotLayout& layout, Nanos deadline);

  client::RpcChannel channel_;
  UniqueFd connection_;                                   // the channel's, for hang_up()
  std::vector<std::unique_ptr<client::Region>> regions_;  // by lane; null: not this one's
  std::unique_ptr<client::Link> link_;                    // goes before the memory that it reaches
  std::string description_;
  mutable bool lost_ = false;
};

}  // namespace tally::control
