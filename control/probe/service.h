// The node's methods probe.*: the node measures its machine and, with other nodes, the network
// between them.
//
// A measurement occupies a processor and fills a network, so the methods need the rights of an
// operator (control/access). The node runs one measurement of each kind at a time. Only the
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
  std::string host;  // TCP address of the node ("*": all addresses); empty: no TCP
  const summation::Kernels* kernels = nullptr;
  unsigned shards = 1;             // number of shards that serve a job
  std::uint64_t window = 4 << 20;  // bytes of a shard's window
};

class ProbeService {
 public:
  // Borrows `io`.
  ProbeService(ProbeOptions options, asio::io_context& io);
  // Ends present measurements within a fraction of a second.
  ~ProbeService();

  void handle(const rpc::Request& request, rpc::Reply reply);

 private:
  void machine(const rpc::Request& request, rpc::Reply reply);
  void serve(const rpc::Request& request, rpc::Reply reply);
  void run(const rpc::Request& request, rpc::Reply reply);
  // Runs `task` on a thread of the service, then `then` on the control thread. `busy` is true until
  // the task has ended. When the task runs out of memory, `then` does not run.
  void begin(bool& busy, std::function<void()> task, std::function<void()> then);

  const ProbeOptions options_;
  asio::io_context& io_;
  bool measuring_ = false;
  bool serving_ = false;
  bool sending_ = false;
  std::atomic<bool> stop_{false};
  std::unique_ptr<ThreadPool> threads_;  // last: the threads end before what they use
};

}  // namespace tally::control::probe
