// The other end of a branch's session in its parent's loopback: an Uplink with one lane.
#pragma once

#include <vector>

#include "dataplane/engine/uplink.h"
#include "dataplane/transport/loopback/loopback.h"

namespace tally::testing {

class LoopbackUplink final : public engine::Uplink {
 public:
  // To the shard that `parent` is the transport of, as its peer. `slot_bytes` of slots, all of the
  // same odd byte.
  LoopbackUplink(transport::Loopback& parent, transport::Peer peer, std::uint32_t region,
                 std::uint64_t slot_bytes)
      : parent_(parent), peer_(peer), region_(region), slots_(slot_bytes, std::byte{0xee}) {
    parent_.connect(peer);
    parent_.add_region(peer, region, slots_);
  }

  void send(std::uint32_t /*lane*/, const RingSlot& message) override {
    parent_.send(peer_, message);
  }
  std::size_t receive(std::uint32_t /*lane*/, std::span<RingSlot> out) override {
    return lost() ? 0 : parent_.take(peer_, out);
  }
  std::span<std::byte> slots(std::uint32_t /*lane*/) const override { return slots_; }
  std::uint32_t region(std::uint32_t /*lane*/) const override { return region_; }
  bool lost() const override { return !parent_.connected(peer_); }
  void disconnect() override { parent_.drop(peer_); }
  bool arm() override { return true; }
  void disarm() override {}
  int fd() const override { return -1; }

 private:
  transport::Loopback& parent_;
  transport::Peer peer_;
  std::uint32_t region_;
  mutable std::vector<std::byte> slots_;
};

}  // namespace tally::testing
