#include "dataplane/engine/tiles/tile_pool.h"

namespace tally::engine {

TilePool::TilePool(std::uint32_t tiles_up, std::pmr::memory_resource* memory) : memory_(memory) {
  records_.reserve(tiles_up);
  for (std::uint32_t i = 0; i < tiles_up; ++i) records_.emplace_back(memory);
  for (std::uint32_t i = tiles_up; i-- > 0;) free_up_.push_back(i);
}

void TilePool::reserve_down(std::size_t count) {
  for (; down_ < count; ++down_) {
    free_down_.reserve(down_ + 1);  // the list has room before the record exists
    records_.emplace_back(memory_).down = true;
    free_down_.push_back(static_cast<std::uint32_t>(records_.size() - 1));
  }
}

TileRecord* TilePool::next(const std::vector<std::uint32_t>& free) {
  if (free.empty()) return nullptr;
  TileRecord& record = records_[free.back()];
  record.reserve(children_);
  record.tile.handle = free.back();
  return &record;
}

void TilePool::take(TileRecord& record) {
  free_list(record.down).pop_back();
  record.status = Status::kOk;
  record.culprit = protocol::kNoSession;
}

void TilePool::put_back(TileRecord& record) {
  free_list(record.down).push_back(record.tile.handle);
}

}  // namespace tally::engine
