// This node's connections to its parent nodes in trees. Helper threads make and end them; in
// between the shards use them. Control thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "control/node/jobs/admission.h"
#include "control/node/shards/shard_set.h"
#include "control/node/shards/shard_tasks.h"
#include "control/node/tree/parent_session.h"
#include "control/threads/thread_pool.h"

namespace tally::control {

class ParentConnections {
 public:
  // node is this node's name. serves: whether placements come here at all; without them there are
  // no threads. Borrows the loop and the shards.
  ParentConnections(asio::io_context& io, ShardSet& shards, std::string node,
                    net::tls::Credentials credentials, bool serves);
  // Precondition: no shard runs any more.
  ~ParentConnections();
  ParentConnections(const ParentConnections&) = delete;
  ParentConnections& operator=(const ParentConnections&) = delete;

  // Makes one connection for each shard of the job instance and each parent node that the shard
  // has. Precondition: the shards know the job. Calls `then` when the shards know all connections,
  // or with the reason why one cannot be made by `deadline`; does not call it when remove() comes
  // before. The instance must live until remove().
  void connect(const JobInstance& instance, Nanos deadline,
               std::function<void(const Outcome&)> then);
  // Makes the shards forget the job and its connections, finished or not; then calls `then`.
  // Precondition: the instance has no member any more.
  void remove(const JobInstance& instance, std::function<void()> then);
  // Reports to the parent nodes that no rank is left below these vertices; once for each.
  void report_empty(const JobInstance& instance, const std::vector<protocol::Vertex>& vertices);
  // The callback gets the job's JobId and the parent node when a connection is lost.
  void on_lost(std::function<void(protocol::JobId job_id, const std::string& node)> callback) {
    on_lost_ = std::move(callback);
  }
  // Cancels all waits for connections.
  void give_up();

 private:
  // A parent of the shard's vertices: its number in the assignment, the shard of the parent node,
  // and the shard's ParentId for it.
  struct Parent {
    std::uint32_t number = 0;
    std::uint32_t shard = 0;
    protocol::ParentId parent_id = 0;
  };
  // The connection of a shard to a parent node.
  struct Connection {
    explicit Connection(Nanos deadline) : cancel(deadline) {}
    CancelToken cancel;  // time limit for making it
    std::uint32_t shard = 0;
    std::string node;
    std::vector<Parent> parents;
    std::set<std::uint32_t> empty;  // trees that were reported as empty
    std::unique_ptr<ParentSession> parent_connection;
    Outcome made = Unit{};
  };
  using SharedConnection = std::shared_ptr<Connection>;
  // The connections of a job instance.
  struct Bundle {
    protocol::JobId job_id = 0;
    protocol::BufferLayout buffers;
    Nanos deadline = 0;
    std::vector<SharedConnection> connections;
    std::size_t unmade = 0;
    bool known = false;  // true when the shards know it
    std::function<void(const Outcome&)> then;
    std::function<void()> removed;  // when set, it is called as soon as no connection is being made

    // Cancels the connections that are being made.
    void give_up() const {
      for (const auto& one : connections) one->cancel.end();
    }
  };
  using SharedBundle = std::shared_ptr<Bundle>;

  void add_connections(const JobInstance& instance, std::uint32_t index, Bundle& bundle);
  protocol::ParentId free_parent_id();
  void begin(const JobInstance& instance, const SharedBundle& bundle);
  void all_made(const SharedBundle& bundle);
  void hand_over(const SharedBundle& bundle);
  void take_back(const SharedBundle& bundle);
  void lost(protocol::ParentId parent_id);

  ShardSet& shards_;
  const std::string node_;
  const net::tls::Credentials credentials_;
  ShardTasks tasks_;  // before the connections, which end by it
  std::map<protocol::JobId, SharedBundle> bundles_;
  std::set<protocol::ParentId> parents_;  // in use at some shard
  std::function<void(std::uint32_t, const std::string&)> on_lost_;
  ThreadPool makers_;
  ThreadPool ender_;  // separate, so that ending connections does not wait for making them
};

}  // namespace tally::control
