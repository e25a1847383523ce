// The connection of one of this node's shards to the shards of a parent node, by the shard's own
// transport roce: for a node whose Ethernet port DPDK drives. It serves ParentSession as the
// connections of clients do. The parent node has an RDMA device or such a port itself.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/connections/connection.h"
#include "client/connections/make_connection.h"
#include "client/connections/session_events.h"
#include "control/node/shards/shard_tasks.h"
#include "dataplane/transport/roce/parent_pair.h"
#include "dataplane/transport/verbs/queue_pair.h"
#include "net/rpc/rpc_channel.h"

namespace tally::control {

class RoceConnection final : public client::Connection {
 public:
  struct Options {
    ShardTasks* tasks = nullptr;
    std::uint32_t shard = 0;  // of this node
    client::ConnectionSize size{};
  };

  // Makes a queue pair for each shard of the parent node, attaches the session, and waits until
  // packets have got there and back. Blocks. `opened` is the parent's answer to session.open. The
  // connection borrows the descriptor of `channel`. kUnsupported: no packets get there; another
  // transport may do.
  static Result<std::unique_ptr<RoceConnection>> make(const Options& options,
                                                      rpc::RpcChannel& channel,
                                                      const nlohmann::json& opened, Nanos deadline);
  ~RoceConnection() override;

  // -- client::Connection. The thread of the shard calls send(), send_message(), receive(), arm()
  // and read_events().
  std::string_view transport() const override { return "roce"; }
  std::string description() const override { return "roce"; }
  std::uint32_t shards() const override { return options_.size.shards; }
  bool send(std::uint32_t shard, const wire::Notice& notice,
            std::span<const std::byte> contribution) override;
  bool send_message(std::uint32_t shard, const RingEntry& message) override;
  std::size_t receive(std::uint32_t shard, std::span<RingEntry> out) override;
  bool broken() const override { return false; }
  Result<Offer> offer(const client::Region& region) override;
  void withdraw(const client::Region&) override {}  // fence() ends it
  bool wants_shared_memory() const override { return false; }
  bool arm(Nanos until) override;
  void disarm() override {}
  int fd() const override { return events_.fd(); }
  bool read_events() override;
  std::string why_gone() const override;
  // Returns true when the shard has ended the queue pairs. Blocks; the deadline does not matter.
  bool fence(Nanos deadline) override;
  void hang_up() override { events_.forget_all(); }

 private:
  using Address = transport::verbs::Address;
  using ParentPair = transport::roce::ParentPair;

  RoceConnection(const Options& options, client::SessionEvents events)
      : options_(options), events_(std::move(events)) {}
  Outcome connect(std::span<const Address> parents, std::uint32_t probe_bytes);
  Outcome wait_for_answers(Nanos deadline);
  // Lost by its own connection; null: none is.
  const ParentPair* lost() const;

  const Options options_;
  client::SessionEvents events_;
  bool uses_ = false;                 // the transport of the shard has turns for this connection
  std::vector<Address> reserved_;     // this end's queue pairs, by shard of the parent
  std::vector<ParentPair*> parents_;  // likewise
};

}  // namespace tally::control
