// A rank that talks to a node without libtally, so that a test can send invalid data: it writes
// rings, regions and doorbells directly. Functions throw std::runtime_error when the node refuses a
// request.
#pragma once

#include <string>
#include <vector>

#include "dataplane/partition/partition.h"
#include "dataplane/transport/shm/memory.h"
#include "dataplane/transport/shm/segment.h"
#include "dataplane/wire/notice.h"
#include "net/rpc/rpc_channel.h"

namespace tally::testing {

struct RawOptions {
  std::string address;
  std::string job;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
};

// A connection to the node's Unix socket, on which nothing has been sent. Throws.
UniqueFd connect_raw(const std::string& address);
// The same as a client's channel.
rpc::RpcChannel must_connect(const std::string& address);

class RawSession {
 public:
  // Opens, attaches and registers one region, as a correct rank does.
  explicit RawSession(const RawOptions& options);

  // Registers a region; returns its number at the node. `bytes` is the size that the request
  // declares; the memfd may have another one.
  Result<std::uint32_t> add_region(int memfd, std::uint64_t bytes);
  // A valid notice: an in-place all-reduce of f32 in the first region.
  wire::Notice notice(std::uint32_t tag, std::uint32_t round, std::uint64_t count = 1000) const;
  // Sends the notice to its shard and rings the doorbell. Returns false when the ring is full.
  bool send(const wire::Notice& notice);
  bool send(std::uint32_t shard, const RingEntry& bytes);
  void ring(std::uint32_t shard) const;
  // Takes the completions of all shards; returns their number.
  std::size_t drain();
  // True when the node has ended the session.
  bool over() const;

  std::uint32_t shards() const { return segment.geometry().shards; }

  static constexpr std::size_t kRegionBytes = 1 << 20;

  rpc::RpcChannel channel;
  std::uint32_t epoch = 0;
  transport::shm::SharedMemory memory;  // of the segment
  transport::shm::Segment segment;
  transport::shm::SharedMemory data;  // of the region
  std::uint32_t region = 0;
  std::vector<UniqueFd> doorbells;
  std::vector<UniqueFd> node_ends;  // the node's ends of the doorbells, kept for attacks

 private:
  protocol::Partition plan_;
  std::vector<RingProducer> notices_;
  std::vector<RingConsumer> completions_;
};

}  // namespace tally::testing
