// The tile records of a shard.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "dataplane/engine/tiles/tile_record.h"

namespace tally::engine {

// Owns the tile records of a shard, and knows which of them hold a tile in flight. A tile up is a
// sum that the shard makes. A tile down is a result that the shard gets from a parent and hands on;
// its records are separate, so that it never waits for tiles up. Only the shard's thread calls the
// pool. A function that grows the pool throws std::bad_alloc without memory, and leaves the pool as
// it is.
class TilePool {
 public:
  // Borrows the memory.
  TilePool(std::uint32_t tiles_up, std::pmr::memory_resource* memory);

  // The caller must call this before it starts a tile with so many inputs.
  void expect_children(std::size_t children) { children_ = std::max(children_, children); }
  // Adds records until there are `count` records for tiles down. References to records become
  // invalid.
  void reserve_down(std::size_t count);

  // Returns a free record with room for a tile's inputs and with the tile's handle set; null when
  // no record is free. The record stays free until take(). Throws std::bad_alloc.
  TileRecord* next_up() { return next(free_up_); }
  TileRecord* next_down() { return next(free_down_); }
  // Marks the record as in flight. Precondition: the last next_up() or next_down() returned the
  // record.
  void take(TileRecord& record);
  // Marks the record as free. Allocates nothing. Precondition: the record is in flight.
  void put_back(TileRecord& record);

  TileRecord& operator[](std::uint32_t handle) { return records_[handle]; }
  // Returns all records. A free record still has the values of its last tile.
  std::span<const TileRecord> records() const { return records_; }
  std::size_t in_flight() const { return records_.size() - free_up_.size() - free_down_.size(); }

 private:
  TileRecord* next(const std::vector<std::uint32_t>& free);
  std::vector<std::uint32_t>& free_list(bool down) { return down ? free_down_ : free_up_; }

  std::pmr::memory_resource* memory_;
  std::vector<TileRecord> records_;  // index: handle
  std::vector<std::uint32_t> free_up_;
  std::vector<std::uint32_t> free_down_;
  std::size_t down_ = 0;      // records for tiles down
  std::size_t children_ = 0;  // the most children of any tile
};

}  // namespace tally::engine
