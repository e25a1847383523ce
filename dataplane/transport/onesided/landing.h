// Where the bytes of pulls land: one block of memory, given out in pieces, the lowest place first.
// So a peer that never answers keeps its own piece and no other, and while little is in use little
// is touched, and stays in the caches.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/fd.h"

namespace tally::transport::onesided {

// One thread.
class LandingMemory {
 public:
  static constexpr std::size_t kAlignment = 4096;

  // `hugepages`: reserved ones, where enough are free; it is longer then. Throws std::bad_alloc.
  explicit LandingMemory(std::size_t bytes, bool hugepages = false);

  // Page-aligned; null while no gap is long enough.
  std::byte* allocate(std::size_t bytes);
  // Precondition: `data` came from allocate() and has not been released.
  void release(const std::byte* data);

  std::size_t bytes() const { return memory_.size(); }
  std::span<std::byte> memory() const { return {memory_.data(), memory_.size()}; }
  bool on_hugepages() const { return on_hugepages_; }
  bool empty() const { return pieces_.empty(); }

 private:
  struct Piece {
    std::size_t begin;
    std::size_t end;
  };

  Mapping memory_;
  bool on_hugepages_ = false;
  std::vector<Piece> pieces_;  // in use, by place: as many as there are pulls under way
};

}  // namespace tally::transport::onesided
