// A tile on its way, and what the transport gave for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "base/block_stats.h"
#include "base/status.h"
#include "base/view.h"
#include "dataplane/protocol/tile.h"
#include "dataplane/transport/transport.h"

namespace tally::engine {

struct TileSlot {
  explicit TileSlot(std::pmr::memory_resource* memory)
      : views(memory),
        handles(memory),
        held(memory),
        damages(memory),
        stats(memory),
        staging(memory) {}

  protocol::Tile tile;
  bool down = false;  // a result that is handed on
  // By pull: the sources, then their checksums.
  std::pmr::vector<View> views;
  std::pmr::vector<std::uint32_t> handles;  // of the views
  std::pmr::vector<std::uint8_t> held;      // the view is to be released
  std::pmr::vector<std::uint8_t> damages;   // by checksums: how often they were not these bytes'
  std::pmr::vector<BlockStats> stats;
  std::pmr::vector<std::byte> staging;  // the sum, where it cannot be stored at the receivers
  const std::byte* result = nullptr;  // what is pushed: in staging, or of a tile down its own slot
  std::uint32_t pulls_left = 0;
  std::uint32_t pushes_left = 0;
  Status status = Status::kOk;
  protocol::Member culprit = protocol::kNoMember;
};

// A tile slot and one of its endpoints, as the transport's `user` value.
inline std::uint64_t user_of(std::uint32_t slot, std::size_t index) {
  return std::uint64_t{slot} << 16 | index;
}
inline std::uint32_t slot_of(std::uint64_t user) {
  return static_cast<std::uint32_t>(user >> 16);
}
inline std::size_t index_of(std::uint64_t user) {
  return user & 0xffff;
}

inline transport::Range range_of(const protocol::Endpoint& endpoint) {
  return transport::Range{endpoint.member, endpoint.region, endpoint.offset, endpoint.bytes};
}

}  // namespace tally::engine
