// Transport `shm`, the client's side: the segment of the session, and a doorbell for each shard.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/system/fd.h"
#include "client/connections/connection.h"
#include "client/connections/session_events.h"
#include "dataplane/transport/shm/memory.h"
#include "dataplane/transport/shm/segment.h"
#include "dataplane/wire/notice.h"

namespace tally::client {

class ShmConnection final : public Connection {
 public:
  // Makes the segment and the sockets. `watch` is the control connection, borrowed; its hang-up
  // also means that the node is gone.
  static Result<std::unique_ptr<ShmConnection>> make(
      const transport::shm::SegmentGeometry& geometry, int watch);

  // The descriptors for the node: the segment, then the node's end of each shard's doorbell. They
  // are valid until attached().
  std::vector<int> node_fds() const;
  // The node has its ends. The connection closes its copies of them, so that it notices the death
  // of the node.
  void attached() { node_ends_.clear(); }

  std::string_view transport() const override { return "shm"; }
  std::string description() const override { return "shm"; }
  std::uint32_t shards() const override { return segment_.geometry().shards; }
  bool send(std::uint32_t shard, const wire::Notice& notice,
            std::span<const std::byte> contribution) override;
  bool send_message(std::uint32_t shard, const RingEntry& message) override;
  std::size_t receive(std::uint32_t shard, std::span<RingEntry> out) override;
  bool broken() const override;
  Result<Offer> offer(const Region& region) override;
  void withdraw(const Region&) override {}
  bool wants_shared_memory() const override { return true; }
  bool arm(Nanos until) override;
  void disarm() override;
  int fd() const override { return events_.fd(); }
  bool read_events() override;
  bool fence(Nanos deadline) override;
  void hang_up() override;

 private:
  struct Shard {
    RingProducer notices;
    RingConsumer completions;
    UniqueFd doorbell;
  };

  transport::shm::SharedMemory memory_;
  transport::shm::Segment segment_;
  std::vector<Shard> shards_;
  std::vector<UniqueFd> node_ends_;

  SessionEvents events_;
  UniqueFd node_;        // the node's process, as a pidfd; empty when there is none
  bool broken_ = false;  // the node has closed a doorbell
};

}  // namespace tally::client
