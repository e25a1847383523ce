// Transport `shm`, the client's side: the session segment and a doorbell to every shard.
#pragma once

#include <span>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "dataplane/transport/shm/memory.h"
#include "dataplane/transport/shm/segment.h"
#include "dataplane/wire/notice.h"

namespace tally::client {

class ShmLink {
 public:
  // Makes the segment and the sockets. `watch`: a descriptor whose hang-up means that the node is
  // gone too (the control connection); borrowed.
  static Result<ShmLink> make(const transport::shm::SegmentGeometry& geometry, int watch);

  // What the node needs: the segment, then its end of each shard's doorbell. Valid until
  // attached().
  std::vector<int> node_fds() const;
  // The node has its ends: ours of them are closed, so that its death can be seen.
  void attached() { node_ends_.clear(); }

  std::uint32_t shards() const { return segment_.geometry().shards; }

  // False when the ring is full, which a client within its credit never sees.
  bool send(std::uint32_t shard, const wire::Notice& notice);

  // Copies what is there to the front of `out`.
  std::size_t receive(std::uint32_t shard, std::span<RingSlot> out);
  bool broken() const;

  // Before a sleep: false when a completion is there already. Readable fd(): doorbell or death.
  // fd() becomes readable at `until` too, so that an event loop comes back to a node that is
  // silent.
  bool arm(Nanos until);
  void disarm();
  int fd() const { return epoll_.get(); }

  // Takes the bytes off the doorbells; true when the node is gone. A few system calls.
  bool hear();

  // From its return on no shard of the node reads or stores this session's memory; false when that
  // could not be had by `deadline` (a shard stopped in the middle of a tile).
  bool fence(Nanos deadline);

  // The end, after the fence: the node sees it at the doorbells, and fd() has nothing more to say.
  void hang_up();

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

  UniqueFd epoll_;
  UniqueFd timer_;  // the `until` of arm()
  UniqueFd node_;   // the node's process, by pidfd; empty where that is not to be had
  int watch_ = -1;
  bool gone_ = false;
};

}  // namespace tally::client
