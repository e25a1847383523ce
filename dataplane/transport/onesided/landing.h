// Where the bytes of pulls land: one block of memory, given out in a ring. Pulls are made and end
// in nearly the same order, so that a ring wastes little and never fragments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "base/fd.h"

namespace tally::transport::onesided {

// One thread.
class LandingRing {
 public:
  static constexpr std::size_t kAlignment = 4096;

  struct Block {
    std::uint64_t number = 0;  // for release()
    std::byte* data = nullptr;
  };

  // What is beyond `usual` bytes is touched only while that much is in use at a time, so that the
  // rest stays in the caches. Throws std::bad_alloc.
  explicit LandingRing(std::size_t bytes, std::size_t usual);

  // Page-aligned; nothing while there is no room.
  std::optional<Block> allocate(std::size_t bytes);
  void release(std::uint64_t number);

  std::size_t bytes() const { return memory_.size(); }
  std::span<std::byte> memory() const { return {memory_.data(), memory_.size()}; }
  bool empty() const { return blocks_.empty(); }

 private:
  struct Piece {
    std::size_t begin;
    std::size_t end;
    bool released;
  };

  Mapping memory_;
  std::size_t usual_;
  std::deque<Piece> blocks_;  // oldest first
  std::uint64_t first_ = 0;   // the number of blocks_.front()
};

}  // namespace tally::transport::onesided
