// The connection of one of this node's shards to a parent node. It uses what clients use: a session
// at that node, a connection to its shards, and the buffers as regions.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/system/fd.h"
#include "client/connections/connection.h"
#include "client/connections/make_connection.h"
#include "client/memory/region.h"
#include "control/node/shards/shard_tasks.h"
#include "dataplane/engine/parent_connection.h"
#include "dataplane/protocol/job/vertex.h"
#include "net/rpc/rpc_channel.h"

namespace tally::control {

// Lets another thread cancel a wait for a connection. Any thread.
class CancelToken {
 public:
  explicit CancelToken(Nanos deadline) : deadline_(deadline) {}

  void end();
  bool over() const { return ended_.load(std::memory_order_relaxed); }
  Nanos deadline() const { return deadline_; }
  // end() shuts this connection down, until watch() names another one. -1 for none.
  void watch(int socket);

 private:
  const Nanos deadline_;
  std::atomic<bool> ended_{false};
  std::mutex mutex_;  // protects the members below
  UniqueFd socket_;   // a duplicate, so that it stays open meanwhile
};

class ParentSession final : public engine::ParentConnection {
 public:
  struct Options {
    std::string address;            // of the parent node
    std::string node;               // this node's name
    std::uint32_t shard_index = 0;  // of this shard among those that serve the job
    std::string job;
    net::tls::Credentials credentials;  // over TCP, what this node shows
    std::string token;                  // the job instance's key, where TLS shows nothing
    std::uint32_t epoch = 1;
    std::uint32_t ranks = 1;
    std::vector<std::uint32_t> parent_shards;  // shards of the parent node that this shard uses
    protocol::BufferLayout buffers;
    // Of a node with transport roce: this shard can reach parent nodes by it. Otherwise null.
    ShardTasks* roce = nullptr;
    std::uint32_t shard = 0;  // this node's shard
  };

  // Connects; blocks. A parent node that is not there yet, or does not know the job yet, is asked
  // again until `cancel` ends.
  static Result<std::unique_ptr<ParentSession>> connect(const Options& options,
                                                        CancelToken& cancel);

  // Closes the session and waits a short time for the answer. Precondition: no shard uses it any
  // more.
  ~ParentSession() override;

  // The transport ("shm"), and why it was chosen.
  const std::string& description() const { return description_; }
  // Reports to the parent node that no rank is left below this node in these trees. Waits a short
  // time for the answer. Precondition: no other call on this object is in progress.
  void report_empty(const std::vector<std::uint32_t>& trees);
  // Shuts the connection down; the parent node sees its end. Any thread, at any time.
  void hang_up() const;

  // -- engine::ParentConnection: the shard's thread alone
  // ---------------------------------------------------
  void send(std::uint32_t shard, const RingEntry& message) override;
  std::size_t receive(std::uint32_t shard, std::span<RingEntry> out) override;
  std::span<std::byte> buffers(std::uint32_t shard) const override;
  std::uint32_t region(std::uint32_t shard) const override;
  bool lost() const override;
  void disconnect() override { lost_ = true; }
  bool arm() override { return connection_->arm(kForever); }
  void disarm() override { connection_->disarm(); }
  int fd() const override { return connection_->fd(); }

 private:
  ParentSession(rpc::RpcChannel channel, std::unique_ptr<client::Connection> connection,
                std::string description);

  static Result<std::unique_ptr<ParentSession>> attempt(const Options& options,
                                                        CancelToken& cancel);
  // By the node's own port where the parent can be reached so, otherwise as a client.
  static Result<client::ChosenConnection> reach(const Options& options, rpc::RpcChannel& channel,
                                                const nlohmann::json& opened,
                                                const client::ConnectionSize& size, Nanos deadline);
  Outcome add_buffers(std::uint32_t shard, const protocol::BufferLayout& layout, Nanos deadline);

  rpc::RpcChannel channel_;
  UniqueFd control_socket_;  // the channel's socket, for hang_up()
  // By shard of the parent node; null where this shard does not use that shard.
  std::vector<std::unique_ptr<client::Region>> regions_;
  // Is destroyed before the memory that it accesses.
  std::unique_ptr<client::Connection> connection_;
  std::string description_;
  mutable bool lost_ = false;
};

}  // namespace tally::control
