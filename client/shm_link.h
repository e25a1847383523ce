// Transport `shm`, the client's side: the session segment and a doorbell to every shard.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "client/link.h"
#include "client/session_events.h"
#include "dataplane/transport/shm/memory.h"
#include "dataplane/transport/shm/segment.h"
#include "dataplane/wire/notice.h"

namespace tally::client {

class ShmLink final : public Link {
 public:
  // Makes the segment and the sockets. `watch`: a descriptor whose hang-up means that the node is
  // gone too (the control connection); borrowed.
  static Result<std::unique_ptr<ShmLink>> make(const transport::shm::SegmentGeometry& geometry,
                                               int watch);

  // What the node needs: the segment, then its end of each shard's doorbell. Valid until
  // attached().
  std::vector<int> node_fds() const;
  // The node has its ends: ours of them are closed, so that its death can be seen.
  void attached() { node_ends_.clear(); }

  std::string_view transport() const override { return "shm"; }
  std::string description() const override { return "shm"; }
  std::uint32_t shards() const override { return segment_.geometry().shards; }
  bool send(std::uint32_t shard, const wire::Notice& notice,
            std::span<const std::byte> contribution) override;
  bool send_message(std::uint32_t shard, const RingSlot& message) override;
  std::size_t receive(std::uint32_t shard, std::span<RingSlot> out) override;
  bool broken() const override;
  Result<Offer> offer(const Region& region) override;
  void withdraw(const Region&) override {}
  bool wants_shared_memory() const override { return true; }
  bool arm(Nanos until) override;
  void disarm() override;
  int fd() const override { return events_.fd(); }
  bool hear() override;
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
  UniqueFd node_;        // its process, by pidfd; empty where that is not to be had
  bool broken_ = false;  // a doorbell: the node has let go of it
};

}  // namespace tally::client
