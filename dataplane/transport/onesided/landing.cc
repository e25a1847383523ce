#include "dataplane/transport/onesided/landing.h"

#include <sys/mman.h>

#include <new>

namespace tally::transport::onesided {
namespace {

std::size_t round_up(std::size_t bytes) {
  return (bytes + LandingRing::kAlignment - 1) / LandingRing::kAlignment * LandingRing::kAlignment;
}

Mapping map(std::size_t bytes) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  ::madvise(data, bytes, MADV_HUGEPAGE);  // a wish
  return Mapping(data, bytes);
}

}  // namespace

LandingRing::LandingRing(std::size_t bytes, std::size_t usual)
    : memory_(map(round_up(bytes))), usual_(usual) {}

// Between the newest block's end and the oldest one's begin, or, when the usual part is used up, at
// the memory's beginning if there is room.
std::optional<LandingRing::Block> LandingRing::allocate(std::size_t wanted) {
  const std::size_t bytes = round_up(wanted);
  std::size_t begin = 0;
  if (!blocks_.empty()) {
    const std::size_t oldest = blocks_.front().begin;
    const std::size_t newest = blocks_.back().end;
    const bool wrapped = newest <= oldest;
    if (wrapped) {
      if (newest + bytes > oldest) return std::nullopt;
      begin = newest;
    } else if (newest + bytes <= usual_ || bytes > oldest) {
      begin = newest;
    }
  }
  if (begin + bytes > memory_.size()) return std::nullopt;
  blocks_.push_back({begin, begin + bytes, false});
  return Block{first_ + blocks_.size() - 1, memory_.data() + begin};
}

void LandingRing::release(std::uint64_t number) {
  blocks_[number - first_].released = true;
  while (!blocks_.empty() && blocks_.front().released) {
    blocks_.pop_front();
    ++first_;
  }
}

}  // namespace tally::transport::onesided
