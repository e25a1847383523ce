// RoCEv2 in user space: workers with RDMA adapters, over an Ethernet port that DPDK drives. A
// worker's end is the same as for transport verbs; it gets the port's address as a GID and does not
// learn that there is no adapter behind it.
//
// A port has no descriptor that tells of frames. So a shard that has nothing to do naps: for 100
// us, and longer the longer nothing comes.
//
// The kernels sum the bytes of pulls out of the frames. Short packets, and those of too many
// frames, are copied to landing memory. Pushes leave from the memory of the tiles.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "dataplane/transport/onesided/onesided_transport.h"
#include "dataplane/transport/roce/endpoint.h"
#include "dataplane/transport/roce/link.h"
#include "dataplane/transport/roce/parent_pair.h"
#include "dataplane/transport/roce/read_frames.h"
#include "dataplane/transport/verbs/queue_pair.h"

namespace tally::transport::roce {

struct TransportOptions {
  IpAddress address{};       // of the port
  std::uint32_t mtu = 4096;  // most bytes of payload in a packet, 256 to 4096
  Nanos ack_timeout = PairOptions().ack_timeout;
  std::uint32_t window = 256;      // packets on their way, of all connections of the shard
  std::size_t kept_frames = 1024;  // that may be kept until their bytes are summed
  std::size_t landing_bytes = 0;
  std::span<std::byte> tiles{};  // the memory into which the shard sums what it pushes; borrowed
  bool hugepages = false;
};

// One thread: the shard's.
class RoceTransport : public onesided::OneSidedTransport {
 public:
  // RDMA READs that a connection answers at a time.
  static constexpr std::uint8_t kReads = 16;

  // Throws as the constructor of onesided::OneSidedTransport does, and std::system_error without a
  // descriptor.
  RoceTransport(std::unique_ptr<Link> link, const TransportOptions& options);
  ~RoceTransport() override;

  // -- control, on the shard's thread ----------------------------------------------------------
  // Returns the address of the queue pair that serves the peer. credit: operations that the peer
  // may have outstanding. Precondition: peer is not attached. Fails with kUnsupported when the
  // client has no RoCE address, or one of another family.
  Result<verbs::Address> attach(Peer peer, const verbs::Address& client, std::uint32_t credit);
  void detach(Peer peer) override;

  // -- connections to parent nodes, on the shard's thread ----------------------------------------
  // Reserves a queue pair. Returns its address, for the parent.
  verbs::Address reserve();
  // Connects what was reserved to the parent's queue pair. The pair is valid until remove().
  // Fails as attach() does; the reservation stays. credit: operations that are outstanding there.
  Result<ParentPair*> connect(const verbs::Address& own, const verbs::Address& parent,
                              std::uint32_t credit);
  // Ends the connection, or the reservation. The parent reaches no memory after its return.
  // Precondition: the address comes from reserve() and was not removed yet.
  void remove(const verbs::Address& own);

  void disarm() override;
  Counters counters() const;
  PortCounters port_counters() const { return link_->counters(); }

 private:
  // Workers do not reach the node's memory.
  struct NoMemory : ReachableMemory {
    std::byte* find(std::uint32_t, std::uint64_t, std::uint64_t, Right) const override {
      return nullptr;
    }
  };
  // The connection of a worker.
  class Connected final : public Session, public Endpoint {
   public:
    Connected(RoceTransport& transport, Peer peer, const PairOptions& options, const Ends& ends);
    ~Connected() override { end(); }

    bool start(const Work& work) { return post(work); }

   private:
    bool is_broken() const override { return broken; }
    void refuse(std::string reason) override { Session::refuse(std::move(reason)); }
    void on_message(const RingEntry& message, std::span<const std::byte> more) override;
    void on_arrived(const Arrived& arrived, Arrival& arrival) override;
    void on_done(const Done& done) override;
    void on_got_through() override { watch.move_on(); }

    RoceTransport& transport_;
    const Peer peer_;
  };
  static constexpr std::size_t kBurst = 32;

  static Connected& connected(Session& session) { return static_cast<Connected&>(session); }
  std::uint32_t new_number();
  bool start(Session& session, Operation& operation) override;
  bool send(Session& session, const RingEntry& message) override;
  bool take_eagerly(Session& session, const Push& push) override;
  void flush(Session& session) override;
  void progress() override;
  bool may_sleep() override;
  View result_of(Operation& operation) override {
    const View kept = read_.view(operation.index);
    return kept.empty() ? OneSidedTransport::result_of(operation) : kept;
  }
  void done_with(const Operation& operation) override { read_.drop(operation.index); }
  Endpoint* endpoint_of(const Packet& packet, Endpoint* last) const;
  void retire(std::uint32_t number);
  Result<PairOptions> pair_options(const verbs::Address& peer) const;

  std::unique_ptr<Link> link_;  // before all that keeps its frames
  TransportOptions options_;
  NoMemory no_memory_;
  std::unordered_map<std::uint32_t, Endpoint*> numbers_;  // of queue pairs; null: reserved
  std::vector<std::uint32_t> old_numbers_;                // not to be used again soon; a ring
  std::size_t next_old_ = 0;                              // its oldest
  std::array<Arrival, kBurst> burst_;
  ReadFrames read_;
  UniqueFd nap_timer_;
  Nanos nap_;                // how long the next sleep is
  EndpointContext context_;  // its counters: of ended connections too
  std::vector<std::unique_ptr<ParentPair>> parents_;
};

}  // namespace tally::transport::roce
