// Memory of one schedule, reused for the next one, so that thousands of schedules cost no page
// faults.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace tally::sim {

class Arena {
 public:
  // Memory that is valid until reset(). It is not initialized, and aligned for every element type.
  std::span<std::byte> take(std::size_t bytes) {
    const std::size_t rounded = (bytes + 63) / 64 * 64;
    if (chunk_ == chunks_.size() || used_ + rounded > chunks_[chunk_].bytes) next(rounded);
    std::byte* const begin = chunks_[chunk_].memory.get() + used_;
    used_ += rounded;
    return {begin, bytes};
  }

  void reset() { chunk_ = used_ = 0; }

 private:
  static constexpr std::size_t kChunk = 4 << 20;

  struct Chunk {
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes = 0;
  };

  // Moves to a chunk with room, and adds one when there is none.
  void next(std::size_t bytes) {
    if (chunk_ < chunks_.size()) ++chunk_;
    used_ = 0;
    while (chunk_ < chunks_.size() && chunks_[chunk_].bytes < bytes) ++chunk_;
    if (chunk_ < chunks_.size()) return;
    const std::size_t size = bytes > kChunk ? bytes : kChunk;
    chunks_.push_back({std::make_unique_for_overwrite<std::byte[]>(size), size});
  }

  std::vector<Chunk> chunks_;
  std::size_t chunk_ = 0;
  std::size_t used_ = 0;
};

}  // namespace tally::sim
