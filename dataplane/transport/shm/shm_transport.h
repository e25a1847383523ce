// Transport shm, the node's side: worker and node are on one host, and both map the regions. Each
// shard has one ShmTransport. A pull moves no bytes, because the kernels read the worker's memory.
// The kernels do a push: they store into the receivers' memory in the same pass.
#pragma once

#include <string>
#include <vector>

#include "base/system/fd.h"
#include "dataplane/transport/region_table.h"
#include "dataplane/transport/shm/fault_guard.h"
#include "dataplane/transport/shm/segment.h"
#include "dataplane/transport/transport.h"

namespace tally::transport::shm {

// One thread: the shard's. A peer that breaks the protocol becomes lost; the others go on.
class ShmTransport : public Transport {
 public:
  // max_pulls: views that can be held at a time. A pull beyond it is answered with kNoMemory.
  // Throws std::system_error when descriptors run out.
  explicit ShmTransport(std::size_t max_pulls);

  // -- control, on the shard's thread ----------------------------------------------------------
  // Memory of a segment is borrowed until detach(), memory of a region until remove_region().
  //
  // Precondition: peer is not attached. ring: the index of the segment's ShardBlock for this
  // transport. doorbell: a connected stream socket. faulted: the word of the guards over the
  // segment and the regions; borrowed.
  void attach(Peer peer, const Segment& segment, std::uint32_t ring, UniqueFd doorbell,
              const FaultWord& faulted);
  // Returns the peer's doorbell; when the caller closes it, the client sees the end of the
  // connection. Empty when peer is not attached.
  UniqueFd detach(Peer peer);
  // Does nothing for a peer that is not attached here, because other shards serve that peer.
  void add_region(Peer peer, std::uint32_t region, std::byte* data, std::uint64_t bytes);
  // The transport gives out no more views of the region. Returns true when nothing here touches the
  // region from now on. Returns false while the shard holds views of it and may read them: the
  // caller must keep the memory and call again after the shard has released the views.
  [[nodiscard]] bool remove_region(Peer peer, std::uint32_t region);
  // The reason for which the peer was lost, for the log. Empty while the transport serves the peer,
  // and when the peer is not attached here.
  std::string why_lost(Peer peer) const;

  // -- Transport -------------------------------------------------------------------------------
  std::size_t receive(std::span<Received> out) override;
  std::size_t pulled(std::span<Pulled> out) override;
  std::size_t pushed(std::span<Pushed> out) override;
  std::size_t lost(std::span<Peer> out) override;
  bool covers(const Range& range) const override;
  void pull(std::span<const Pull> pulls) override;
  void release(std::uint32_t handle) override;
  Peer begin_access(std::span<const Peer> peers) override;
  Peer end_access(std::span<const Peer> peers) override;
  void locate(std::span<Landing> landings) override;
  void push(std::span<const Push> pushes) override;
  void complete(std::span<const Message> messages) override;
  void disconnect(Peer peer, std::string_view why) override;
  bool arm() override;
  void disarm() override;
  int fd() const override { return epoll_.get(); }

 private:
  struct Region {
    std::byte* data = nullptr;  // null after a remove_region() that returned false
    std::uint64_t bytes = 0;
    std::uint32_t views = 0;  // views of it that the shard holds
  };
  // A view that the shard holds, and the region that it shows.
  struct Out {
    Span span;
    Peer peer = kNoPeer;
    std::uint32_t region = 0;
    std::uint64_t attachment = 0;  // Session::attachment when the view was given out
  };
  struct Session {
    bool attached = false;
    std::uint64_t attachment = 0;  // a number that no other session of this transport has or had
    bool broken = false;           // the transport no longer serves it; lost() reports it
    std::string why;               // the reason for broken, for the log
    bool reported = false;         // lost() has reported it
    RingConsumer notices;
    RingProducer completions;
    SegmentHeader* header = nullptr;
    ShardBlock* block = nullptr;
    const FaultWord* faulted = nullptr;
    UniqueFd doorbell;
    RegionTable<Region> regions;
  };

  bool serves(Peer peer) const {
    return peer < sessions_.size() && sessions_[peer].attached && !sessions_[peer].broken;
  }
  std::byte* at(const Range& range) const;
  static bool has_faulted(Session& session);
  static void refuse(Session& session, std::string why);
  void take_doorbells();

  UniqueFd epoll_;
  std::vector<Session> sessions_;  // by Peer
  std::vector<Peer> attached_;
  std::uint64_t attachments_ = 0;          // number of attach() calls so far
  std::size_t turn_ = 0;                   // selects the peer whose ring receive() reads first
  std::vector<Out> views_;                 // by handle
  std::vector<std::uint32_t> free_views_;  // handles
  std::vector<Pulled> pulled_;             // answers that the shard has not taken yet
  std::vector<Pushed> pushed_;             // likewise
};

}  // namespace tally::transport::shm
