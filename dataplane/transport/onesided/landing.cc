#include "dataplane/transport/onesided/landing.h"

#include <algorithm>
#include <new>

#include "base/huge_pages.h"

namespace tally::transport::onesided {
namespace {

std::size_t round_up(std::size_t bytes) {
  return (bytes + LandingMemory::kAlignment - 1) / LandingMemory::kAlignment *
         LandingMemory::kAlignment;
}

}  // namespace

LandingMemory::LandingMemory(std::size_t bytes, bool hugepages) {
  if (hugepages) memory_ = map_own(round_up(bytes), true);
  on_hugepages_ = static_cast<bool>(memory_);
  if (!memory_) memory_ = map_own(round_up(bytes), false);
  if (!memory_) throw std::bad_alloc();
  constexpr std::size_t kUsualPieces = 4096;
  pieces_.reserve(kUsualPieces);
}

std::byte* LandingMemory::allocate(std::size_t wanted) {
  const std::size_t bytes = round_up(wanted);
  std::size_t begin = 0;
  auto next = pieces_.begin();
  while (next != pieces_.end() && next->begin - begin < bytes) begin = (next++)->end;
  if (memory_.size() - begin < bytes) return nullptr;
  pieces_.insert(next, {begin, begin + bytes});
  return memory_.data() + begin;
}

void LandingMemory::release(const std::byte* data) {
  const auto begin = static_cast<std::size_t>(data - memory_.data());
  pieces_.erase(
      std::lower_bound(pieces_.begin(), pieces_.end(), begin,
                       [](const Piece& piece, std::size_t at) { return piece.begin < at; }));
}

}  // namespace tally::transport::onesided
