// The child's end of a session in its parent's loopback: a ParentConnection with one lane.
#pragma once

#include <vector>

#include "dataplane/engine/parent_connection.h"
#include "tests/support/transport/loopback.h"

namespace tally::testing {

class LoopbackParentConnection final : public engine::ParentConnection {
 public:
  // Connects, as `peer`, to the shard whose transport is `parent`. Has slot_bytes of slots, filled
  // with one odd byte.
  LoopbackParentConnection(transport::Loopback& parent, transport::Peer peer, std::uint32_t region,
                           std::uint64_t slot_bytes)
      : parent_(parent), peer_(peer), region_(region), slots_(slot_bytes, std::byte{0xee}) {
    parent_.connect(peer);
    parent_.add_region(peer, region, slots_);
  }

  void send(std::uint32_t /*lane*/, const RingEntry& message) override {
    parent_.send(peer_, message);
  }
  std::size_t receive(std::uint32_t /*lane*/, std::span<RingEntry> out) override {
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
