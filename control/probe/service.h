// The node's methods probe.*: it measures its machine and, with others, the network between them.
// Only for who shows the cluster's token, as all that is the operator's; of a node without one for
// who comes by its Unix socket: what is measured costs a processor, and fills a network. One
// measurement of each kind at a time. Control thread only;
// the work is done on threads of its own, which are made when they are first needed.
#pragma once

#include <asio/io_context.hpp>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "control/helper_threads.h"
#include "control/rpc/params.h"
#include "control/rpc/service.h"
#include "summation/reduce.h"

namespace tally::control::probe {

struct ProbeOptions {
  std::string token;  // the cluster's; empty: nobody can show it
  std::string host;   // where the node listens on TCP ("*": everywhere); empty: it does not
  const summation::Kernels* kernels = nullptr;
  unsigned shards = 1;             // that serve a job
  std::uint64_t window = 4 << 20;  // bytes, of a shard
};

class ProbeService {
 public:
  // `is_local`: the connection is one to the node's Unix socket. Borrows `io`.
  ProbeService(ProbeOptions options, asio::io_context& io,
               std::function<bool(rpc::ConnectionId)> is_local);
  // Ends what is being measured, within a fraction of a second.
  ~ProbeService();

  void handle(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);

 private:
  bool may(rpc::ConnectionId connection, const std::string& token, rpc::Reply& reply) const;
  void machine(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  void serve(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  void run(rpc::ConnectionId connection, const rpc::Request& request, rpc::Reply reply);
  // On a thread of its own; `busy` until it is done. False, and said, when it is already.
  void begin(bool& busy, std::function<void()> task, std::function<void()> then);

  const ProbeOptions options_;
  asio::io_context& io_;
  std::function<bool(rpc::ConnectionId)> is_local_;
  bool measuring_ = false;
  bool serving_ = false;
  bool sending_ = false;
  std::atomic<bool> stop_{false};
  std::unique_ptr<HelperThreads> threads_;  // last: they end before what they use
};

}  // namespace tally::control::probe
