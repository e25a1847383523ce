// A whole node in the test's process: shards on threads of their own, the control thread, and a
// real socket. It has all parts of tallyd except the EAL.
//
// With $TALLY_TRANSPORT=fabric, which makes clients use that transport, clients reach the node over
// TCP. $TALLY_TEST_HOST sets its address, $TALLY_TEST_PROVIDER libfabric's provider, and
// $TALLY_TEST_ACK_TIMEOUT network.ack_timeout.
//
// With $TALLY_TRANSPORT=verbs and $TALLY_TEST_NODE=roce, each shard has transport roce. Its link is
// one of tests/support/roce/node_links.h, as the test program is linked: to the cable of this
// process (tests/support/roce/cable.h), whose faults $TALLY_TEST_CABLE sets, or to a port. With the
// cable, the program must link roce_soft_adapter, which makes clients use that cable too.
#pragma once

#include <asio/io_context.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "control/coordinator/state/memory_store.h"
#include "control/node/node.h"
#include "net/server/server.h"

namespace tally::testing {

struct LocalNodeOptions {
  std::uint32_t shards = 2;
  bool busy = false;  // shards never sleep
  summation::Isa isa = summation::best_isa();
  std::uint64_t tile_bytes = 0;
  std::uint64_t split_bytes = 256 << 10;
  std::uint32_t credit = 64;
  bool checksums = true;  // the shards check checksums
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
  // Runs the task on every shard's thread, and waits for all of them.
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
