// The child's end of a session in its parent's loopback: a ParentConnection to one shard.
#pragma once

#include <vector>

#include "dataplane/engine/parent_connection.h"
#include "tests/support/transport/loopback.h"

namespace tally::testing {

class LoopbackParentConnection final : public engine::ParentConnection {
 public:
  // Connects, as `peer`, to the shard whose transport is `parent`. Has buffer_bytes of buffers,
  // filled with one odd byte.
  LoopbackParentConnection(transport::Loopback& parent, transport::Peer peer, std::uint32_t region,
                           std::uint64_t buffer_bytes)
      : parent_(parent), peer_(peer), region_(region), buffers_(buffer_bytes, std::byte{0xee}) {
    parent_.connect(peer);
    parent_.add_region(peer, region, buffers_);
  }

  void send(std::uint32_t /*shard*/, const RingEntry& message) override {
    parent_.send(peer_, message);
  }
  std::size_t receive(std::uint32_t /*shard*/, std::span<RingEntry> out) override {
    return lost() ? 0 : parent_.take(peer_, out);
  }
  std::span<std::byte> buffers(std::uint32_t /*shard*/) const override { return buffers_; }
  std::uint32_t region(std::uint32_t /*shard*/) const override { return region_; }
  bool lost() const override { return !parent_.connected(peer_); }
  void disconnect() override { parent_.drop(peer_); }
  bool arm() override { return true; }
  void disarm() override {}
  int fd() const override { return -1; }

 private:
  transport::Loopback& parent_;
  transport::Peer peer_;
  std::uint32_t region_;
  mutable std::vector<std::byte> buffers_;
};

}  // namespace tally::testing
