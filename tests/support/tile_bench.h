// A tile over the loopback transport, for tests of the units in dataplane/engine/tiles.
#pragma once

#include <cstddef>
#include <memory_resource>
#include <span>
#include <vector>

#include "dataplane/engine/tiles/tile_pool.h"
#include "tests/support/transport/loopback.h"

namespace tally::testing {

// Peers with an input and an output, and a pool. The sum of the inputs is `sum()` everywhere.
struct TileBench {
  using Mode = transport::LoopbackConfig::Mode;
  static constexpr std::uint32_t kIn = 1;
  static constexpr std::uint32_t kOut = 2;
  static constexpr std::size_t kCount = 2048;
  static constexpr std::uint64_t kBytes = kCount * sizeof(float);

  TileBench(Mode mode, std::uint32_t peers) : loopback({mode, 0, 0}) {
    pool.expect_children(peers);
    for (std::uint32_t peer = 0; peer < peers; ++peer) {
      in.emplace_back(kCount, static_cast<float>(peer + 1));
      out.emplace_back(kCount, -1.0F);
    }
    for (std::uint32_t peer = 0; peer < peers; ++peer) {
      loopback.connect(peer);
      loopback.add_region(peer, kIn, std::as_writable_bytes(std::span(in[peer])));
      loopback.add_region(peer, kOut, std::as_writable_bytes(std::span(out[peer])));
    }
  }

  // Starts a tile that sums the inputs of the first `ranks` peers as one group, for the same peers.
  engine::TileRecord& start(std::uint32_t ranks) {
    engine::TileRecord& record = *pool.next_up();
    protocol::Tile& tile = record.tile;
    tile.count = kCount;
    tile.group = {0, ranks};
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      tile.sources.push_back({rank, kIn, 0, kBytes, 0});
      tile.landings.push_back({rank, kOut, 0, kBytes, 0});
      tile.members.push_back(rank);
    }
    pool.take(record);
    return record;
  }

  float sum() const { return static_cast<float>(in.size() * (in.size() + 1) / 2); }

  transport::Loopback loopback;
  engine::TilePool pool{2, std::pmr::get_default_resource()};
  std::vector<std::vector<float>> in, out;
};

}  // namespace tally::testing
