// Landing memory: the memory into which the bytes of pulls are read. It is one block, given out in
// pieces. A piece comes from the lowest gap that is long enough. A peer that never answers keeps
// only its own piece. While little is in use, the shard touches little memory, and that stays in
// the caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/system/fd.h"

namespace tally::transport::onesided {

// Owns the block. One thread. allocate() and release() take time that grows with the logarithm of
// the number of pages.
class LandingMemory {
 public:
  static constexpr std::size_t kAlignment = 4096;

  // bytes: rounded up to pages. hugepages: use reserved huge pages when enough are free; then the
  // size is rounded up to huge pages. Throws std::bad_alloc.
  explicit LandingMemory(std::size_t bytes, bool hugepages = false);

  // A page-aligned piece of at least one page. Null while no gap is long enough.
  std::byte* allocate(std::size_t bytes);
  // Gives a piece back. Precondition: allocate() returned data, and it was not released yet.
  void release(const std::byte* data);

  std::size_t bytes() const { return memory_.size(); }
  std::span<std::byte> memory() const { return {memory_.data(), memory_.size()}; }
  bool on_hugepages() const { return on_hugepages_; }
  bool empty() const { return used_pages_ == 0; }  // no piece is given out

 private:
  // Numbers of consecutive free pages in the part of a tree node.
  struct Free {
    std::uint32_t first = 0;  // at the begin of the part
    std::uint32_t last = 0;   // at its end
    std::uint32_t most = 0;   // in the longest gap
  };
  // A part of the pages: all of them, or one half of another part.
  struct Part {
    std::uint32_t node = 1;   // index in tree_
    std::uint32_t begin = 0;  // first page
    std::uint32_t pages = 0;

    Part left() const { return {2 * node, begin, pages / 2}; }
    Part right() const { return {2 * node + 1, begin + pages / 2, pages / 2}; }
  };

  Part all() const { return {1, 0, static_cast<std::uint32_t>(tree_.size() / 2)}; }
  std::uint32_t find(std::uint32_t pages) const;
  void set(const Part& part, std::uint32_t begin, std::uint32_t end, bool free);

  Mapping memory_;
  bool on_hugepages_ = false;
  // A binary tree over the pages; the root is at index 1. When a part is all free or all in use,
  // the entries below its node have no meaning.
  std::vector<Free> tree_;
  std::vector<std::uint32_t> pieces_;  // by first page: number of pages of a piece in use
  std::size_t used_pages_ = 0;
};

}  // namespace tally::transport::onesided
