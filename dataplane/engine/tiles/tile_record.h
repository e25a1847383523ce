// A tile in flight, with the buffers and handles that the transport gave for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "base/block_stats.h"
#include "base/status.h"
#include "base/view.h"
#include "dataplane/protocol/scheduling/tile.h"
#include "dataplane/transport/transport.h"

namespace tally::engine {

// The most entries that the shard takes from a source in one call.
inline constexpr std::size_t kBurst = 64;

// The state of one pulled input.
enum class Input : std::uint8_t {
  kAwaited,
  kReady,  // it exists and may be pulled: a child node's partial sum, or a released view
  kView,   // it is a view that must be released
  kNone,   // it failed, and there will be no view
};

struct TileRecord {
  explicit TileRecord(std::pmr::memory_resource* memory)
      : views(memory),
        handles(memory),
        inputs(memory),
        damages(memory),
        partial(memory),
        placed(memory),
        stats(memory),
        staging(memory),
        unpushed(memory) {}

  // Reserves memory so that a tile with `children` inputs allocates nothing for pulls and pushes.
  // The children are ranks and child nodes. When this throws, no tile has begun in this record.
  void reserve(std::size_t children) {
    if (children <= reserved) return;
    const std::size_t endpoints = 2 * children;  // with checksums, or statistics
    tile.sources.reserve(children);
    tile.checksums.reserve(children);
    tile.landings.reserve(children);
    tile.stats_landings.reserve(children);
    tile.below.reserve(children);
    tile.members.reserve(children);
    views.reserve(endpoints);
    handles.reserve(endpoints);
    inputs.reserve(endpoints);
    damages.reserve(children);
    placed.reserve(endpoints);
    unpushed.reserve(endpoints);
    reserved = children;
  }

  // Records a failure. The first failure names the culprit.
  void fail(Status why, protocol::SessionId member) {
    if (status != Status::kOk) return;
    status = why;
    culprit = member;
  }

  protocol::Tile tile;       // its handle is the record's number
  std::size_t reserved = 0;  // number of children that reserve() has made room for
  bool down = false;         // a result from the parent, which the tile hands on
  // One entry per pull: the sources first, then their checksums.
  std::pmr::vector<View> views;
  std::pmr::vector<std::uint32_t> handles;  // handles of the views
  std::pmr::vector<Input> inputs;
  std::pmr::vector<std::uint8_t> damages;  // per checksums entry: how often the bytes did not match
  protocol::Group checksums;               // the entries of tile.checksums for tile.group
  std::pmr::vector<std::byte> partial;     // the sum of the groups so far
  // One entry per push: 0 while the push is in progress, else 1. A push to a child node is 0 from
  // the start.
  std::pmr::vector<std::uint8_t> placed;
  std::pmr::vector<BlockStats> stats;
  std::pmr::vector<std::byte> staging;  // the sum, when the shard cannot store it at every receiver
  bool staged = false;                  // the sum is in `staging`
  const std::byte* result = nullptr;  // the pushed bytes: in `staging`, or a tile down's own buffer
  std::uint32_t pulls_left = 0;       // pulls of the group that are not answered
  std::uint32_t partials_left = 0;    // TileEvents for partial sums that have not come yet
  std::uint32_t pushes_left = 0;      // all pushes without an answer, also those not issued yet
  std::uint32_t pushing = 0;          // pushes to ranks in progress
  // Indices of the landings that are pushed after others; entries before next_push are done.
  std::pmr::vector<std::uint16_t> unpushed;
  std::size_t next_push = 0;
  Status status = Status::kOk;
  protocol::SessionId culprit = protocol::kNoSession;
};

// Packs the handle of a tile and the index of one of its endpoints into the transport's `user`
// value.
inline std::uint64_t user_of(std::uint32_t handle, std::size_t index) {
  return std::uint64_t{handle} << 16 | index;
}
inline std::uint32_t handle_of(std::uint64_t user) {
  return static_cast<std::uint32_t>(user >> 16);
}
inline std::size_t index_of(std::uint64_t user) {
  return user & 0xffff;
}

inline transport::Range range_of(const protocol::Endpoint& endpoint) {
  return transport::Range{endpoint.member, endpoint.region, endpoint.offset, endpoint.bytes};
}

// Returns a landing that the transport has not located yet.
inline transport::Landing landing_of(const protocol::Tile& tile,
                                     const protocol::Endpoint& endpoint) {
  return {range_of(endpoint), nullptr, tile.operation_bytes, endpoint.cookie};
}

}  // namespace tally::engine
