// A rank that speaks to a node without libtally, so that it can lie: it writes its rings, regions
// and doorbells as it pleases. Throws std::runtime_error when the node refuses what it asks.
#pragma once

#include <string>
#include <vector>

#include "client/rpc_channel.h"
#include "dataplane/protocol/cut.h"
#include "dataplane/transport/shm/memory.h"
#include "dataplane/transport/shm/segment.h"
#include "dataplane/wire/notice.h"

namespace tally::testing {

struct RawOptions {
  std::string address;
  std::string job;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
};

class RawSession {
 public:
  // Opens, attaches and registers one region, as an honest rank does.
  explicit RawSession(const RawOptions& options);

  // Its number at the node. `bytes`: what is said; the memfd is given as it is.
  Result<std::uint32_t> add_region(int memfd, std::uint64_t bytes);
  // An honest notice: an all-reduce of f32, in place, in the first region.
  wire::Notice notice(std::uint32_t tag, std::uint32_t round, std::uint64_t count = 1000) const;
  // To the shard that it is for, and rings. False when the ring is full.
  bool send(const wire::Notice& notice);
  bool send(std::uint32_t shard, const RingSlot& bytes);
  void ring(std::uint32_t shard) const;
  // Takes what the shards have completed; how many there were.
  std::size_t drain();
  // The node has ended the session.
  bool over() const;

  std::uint32_t shards() const { return segment.geometry().shards; }

  static constexpr std::size_t kRegionBytes = 1 << 20;

  client::RpcChannel channel;
  std::uint32_t epoch = 0;
  transport::shm::SharedMemory memory;  // of the segment
  transport::shm::Segment segment;
  transport::shm::SharedMemory data;  // of the region
  std::uint32_t region = 0;
  std::vector<UniqueFd> doorbells;
  std::vector<UniqueFd> node_ends;  // of the doorbells: kept, to play with

 private:
  static client::RpcChannel connect(const RawOptions& options);

  protocol::Plan plan_;
  std::vector<RingProducer> notices_;
  std::vector<RingConsumer> completions_;
};

}  // namespace tally::testing
