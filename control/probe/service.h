// The node's methods probe.*: the node measures its machine and, with other nodes, the network
// between them.
//
// A measurement occupies a processor and fills a network, so the methods need the rights of an
// operator. A caller must show the cluster's token. On a node without a token, only a caller on the
// node's Unix socket may use them. The node runs one measurement of each kind at a time. Only the
// control thread uses the service. The work runs on the service's own threads, which start when
// they are first needed.
#pragma once

#include <asio/io_context.hpp>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "control/threads/thread_pool.h"
#include "net/rpc/params.h"
#include "net/server/service.h"
#include "summation/reduce.h"

namespace tally::control::probe {

struct ProbeOptions {
  std::string token;  // the cluster's token; empty: no caller can show it
  std::string host;   // TCP address of the node ("*": all addresses); empty: no TCP
  const summation::Kernels* kernels = nullptr;
  unsigned shards = 1;             // number of shards that serve a job
  std::uint64_t window = 4 << 20;  // bytes of a shard's window
};

class ProbeService {
 public:
  // `is_local` returns true for a connection to the node's Unix socket. Borrows `io`.
  ProbeService(ProbeOptions options, asio::io_context& io,
               std::function<bool(rpc::ConnectionId)> is_local);
  // Ends present measurements within a fraction of a second.
  ~ProbeService();

  void handle(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);

 private:
  bool may(rpc::ConnectionId connection, const std::string& token, rpc::Reply& reply) const;
  void machine(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  void serve(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  void run(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  // Runs `task` on a thread of the service, then `then` on the control thread. `busy` is true until
  // the task has ended. When the task runs out of memory, `then` does not run.
  void begin(bool& busy, std::function<void()> task, std::function<void()> then);

  const ProbeOptions options_;
  asio::io_context& io_;
  std::function<bool(rpc::ConnectionId)> is_local_;
  bool measuring_ = false;
  bool serving_ = false;
  bool sending_ = false;
  std::atomic<bool> stop_{false};
  std::unique_ptr<ThreadPool> threads_;  // last: the threads end before what they use
};

}  // namespace tally::control::probe
