// Transport `shm`, the node's side, one for each shard: worker and node on one host, regions mapped
// by both. A pull costs nothing (the kernels read the worker's memory) and a push is done by the
// kernels (they store into the receivers' memory in the same pass).
#pragma once

#include <vector>

#include "base/fd.h"
#include "dataplane/transport/shm/fault_guard.h"
#include "dataplane/transport/shm/segment.h"
#include "dataplane/transport/transport.h"

namespace tally::transport::shm {

class Port : public Transport {
 public:
  // `max_pulls`: views that can be out at
  // once. Throws std::system_error when descriptors run out.
  explicit Port(std::size_t max_pulls);

  // -- control, on the shard's thread; all memory is borrowed until detach() / remove_region()
  // ------ Precondition: `peer` is not attached. `doorbell`: a connected stream socket. `faulted`:
  // of the guards over the segment and the regions.
  // `ring`: which of the segment's are between the peer and this port.
  void attach(Peer peer, const Segment& segment, std::uint32_t ring, UniqueFd doorbell,
              const FaultWord& faulted);
  // Gives its doorbell back: closing it tells the client. Empty when `peer` is not attached.
  UniqueFd detach(Peer peer);
  // Does nothing for a peer that is not attached here: it is served by other shards.
  void add_region(Peer peer, std::uint32_t region, std::byte* data, std::uint64_t bytes);
  // Nothing of it is given out any more. True: nothing here touches the region from now on. False:
  // views of it are out and may be read; its memory stays, and it is to be removed again when they
  // are back.
  [[nodiscard]] bool remove_region(Peer peer, std::uint32_t region);

  // -- Transport -------------------------------------------------------------------------------
  std::size_t receive(std::span<Received> out) override;
  std::size_t pulled(std::span<Pulled> out) override;
  std::size_t pushed(std::span<Pushed> out) override;
  std::size_t lost(std::span<Peer> out) override;
  bool covers(const Range& range) const override;
  void pull(std::span<const Pull> pulls) override;
  void release(std::uint32_t handle) override;
  Peer open(std::span<const Peer> peers) override;
  Peer close(std::span<const Peer> peers) override;
  void locate(std::span<Landing> landings) override;
  void push(std::span<const Push> pushes) override;
  void complete(std::span<const Message> messages) override;
  void disconnect(Peer peer) override;
  bool arm() override;
  void disarm() override;
  int fd() const override { return epoll_.get(); }

 private:
  struct Region {
    std::byte* data = nullptr;
    std::uint64_t bytes = 0;
    std::uint32_t views = 0;  // that are out
  };
  // A view, and what it is of.
  struct Out {
    Span span;
    Peer peer = kNoPeer;
    std::uint32_t region = 0;
    std::uint64_t attachment = 0;
  };
  struct Session {
    bool attached = false;
    std::uint64_t attachment = 0;  // no other has or had it
    bool broken = false;           // no longer served; to be reported by lost()
    bool reported = false;
    RingConsumer notices;
    RingProducer completions;
    SegmentHeader* header = nullptr;
    ShardBlock* block = nullptr;
    const FaultWord* faulted = nullptr;
    UniqueFd doorbell;
    std::vector<Region> regions;  // by number; 0 is none
  };

  bool serves(Peer peer) const {
    return peer < sessions_.size() && sessions_[peer].attached && !sessions_[peer].broken;
  }
  std::byte* at(const Range& range) const;
  static bool has_faulted(Session& session);
  void hear_doorbells();

  UniqueFd epoll_;
  std::vector<Session> sessions_;  // by Peer
  std::vector<Peer> attached_;
  std::uint64_t attachments_ = 0;  // up to now
  std::size_t turn_ = 0;           // whose ring is looked at first
  std::vector<Out> views_;         // by handle
  std::vector<std::uint32_t> free_views_;
  std::vector<Pulled> pulled_;  // answers not yet taken
  std::vector<Pushed> pushed_;
};

}  // namespace tally::transport::shm
