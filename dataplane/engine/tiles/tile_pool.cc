#include "dataplane/engine/tiles/tile_pool.h"

namespace tally::engine {

TilePool::TilePool(std::uint32_t tiles_up, std::pmr::memory_resource* memory) : memory_(memory) {
  slots_.reserve(tiles_up);
  for (std::uint32_t i = 0; i < tiles_up; ++i) slots_.emplace_back(memory);
  for (std::uint32_t i = tiles_up; i-- > 0;) free_up_.push_back(i);
}

void TilePool::reserve_down(std::size_t count) {
  for (; down_ < count; ++down_) {
    free_down_.reserve(down_ + 1);  // the list has room before the slot exists
    slots_.emplace_back(memory_).down = true;
    free_down_.push_back(static_cast<std::uint32_t>(slots_.size() - 1));
  }
}

TileSlot* TilePool::next(const std::vector<std::uint32_t>& free) {
  if (free.empty()) return nullptr;
  TileSlot& slot = slots_[free.back()];
  slot.reserve(children_);
  slot.tile.handle = free.back();
  return &slot;
}

void TilePool::take(TileSlot& slot) {
  free_list(slot.down).pop_back();
  slot.status = Status::kOk;
  slot.culprit = protocol::kNoSession;
}

void TilePool::put_back(TileSlot& slot) {
  free_list(slot.down).push_back(slot.tile.handle);
}

}  // namespace tally::engine
