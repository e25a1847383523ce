// A whole node in the test's process: shards on threads of their own, the control thread, a real
// socket. Everything of tallyd but the EAL. With $TALLY_TRANSPORT=fabric, which makes clients take
// that, it is reached over TCP; at $TALLY_TEST_HOST and with libfabric's $TALLY_TEST_PROVIDER where
// they are set. $TALLY_TEST_ACK_TIMEOUT is network.ack_timeout.
#pragma once

#include <asio/io_context.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "control/coordinator/memory_store.h"
#include "control/node.h"
#include "control/rpc/server.h"

namespace tally::testing {

struct LocalNodeOptions {
  std::uint32_t shards = 2;
  bool busy = false;  // shards never wait
  summation::Isa isa = summation::best_isa();
  std::uint64_t tile_bytes = 0;
  std::uint64_t split_bytes = 256 << 10;
  std::uint32_t credit = 64;
  bool checksums = true;  // are checked
  control::AdmissionLimits limits;
  std::vector<control::ConfiguredJob> jobs;
};

class LocalNode {
 public:
  explicit LocalNode(const LocalNodeOptions& options = {});
  ~LocalNode();
  LocalNode(const LocalNode&) = delete;
  LocalNode& operator=(const LocalNode&) = delete;

  const std::string& address() const { return address_; }
  static bool over_network();
  // Runs the task on every shard's thread and waits for all.
  void on_each_shard(control::ShardSet::Task task);

 private:
  std::string directory_;
  std::string address_;
  asio::io_context io_;
  std::unique_ptr<control::ShardSet> shards_;
  control::MemoryStore store_;
  std::unique_ptr<control::Node> node_;
  std::unique_ptr<rpc::Server> server_;
  std::vector<std::thread> threads_;
};

}  // namespace tally::testing
