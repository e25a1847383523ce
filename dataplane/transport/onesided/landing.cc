#include "dataplane/transport/onesided/landing.h"

#include <algorithm>
#include <bit>
#include <new>

#include "base/system/huge_pages.h"

namespace tally::transport::onesided {
namespace {

std::size_t pages_of(std::size_t bytes) {
  return (bytes + LandingMemory::kAlignment - 1) / LandingMemory::kAlignment;
}

}  // namespace

LandingMemory::LandingMemory(std::size_t bytes, bool hugepages) {
  const std::size_t wanted = pages_of(bytes) * kAlignment;
  if (hugepages) memory_ = map_own(wanted, true);
  on_hugepages_ = static_cast<bool>(memory_);
  if (!memory_) memory_ = map_own(wanted, false);
  if (!memory_) throw std::bad_alloc();
  const std::size_t pages = memory_.size() / kAlignment;
  pieces_.resize(pages);
  tree_.resize(2 * std::bit_ceil(pages));
  set(all(), 0, static_cast<std::uint32_t>(pages), true);
}

std::byte* LandingMemory::allocate(std::size_t wanted) {
  const std::size_t needed = std::max<std::size_t>(pages_of(wanted), 1);
  if (needed > tree_[1].most) return nullptr;
  const auto pages = static_cast<std::uint32_t>(needed);
  const std::uint32_t begin = find(pages);
  set(all(), begin, begin + pages, false);
  pieces_[begin] = pages;
  used_pages_ += pages;
  return memory_.data() + begin * kAlignment;
}

void LandingMemory::release(const std::byte* data) {
  const auto begin = static_cast<std::uint32_t>((data - memory_.data()) / kAlignment);
  const std::uint32_t pages = pieces_[begin];
  set(all(), begin, begin + pages, true);
  used_pages_ -= pages;
}

// Returns the lowest place that has room. Precondition: there is one.
std::uint32_t LandingMemory::find(std::uint32_t pages) const {
  for (Part part = all();;) {
    if (tree_[part.node].most == part.pages) return part.begin;
    const Free& left = tree_[part.left().node];
    if (left.most >= pages) {
      part = part.left();
      continue;
    }
    if (left.last + tree_[part.right().node].first >= pages) return part.right().begin - left.last;
    part = part.right();
  }
}

void LandingMemory::set(const Part& part, std::uint32_t begin, std::uint32_t end, bool free) {
  if (end <= part.begin || part.begin + part.pages <= begin) return;
  Free& here = tree_[part.node];
  if (begin <= part.begin && part.begin + part.pages <= end) {
    here.first = here.last = here.most = free ? part.pages : 0;
    return;
  }
  const Part left = part.left(), right = part.right();
  Free& low = tree_[left.node];
  Free& high = tree_[right.node];
  if (here.most == 0) low = high = Free{};
  if (here.most == part.pages) low = high = Free{left.pages, left.pages, left.pages};
  set(left, begin, end, free);
  set(right, begin, end, free);
  here.first = low.first == left.pages ? left.pages + high.first : low.first;
  here.last = high.last == right.pages ? right.pages + low.last : high.last;
  here.most = std::max({low.most, high.most, low.last + high.first});
}

}  // namespace tally::transport::onesided
