#include "base/system/huge_pages.h"

#include <linux/mman.h>
#include <sys/mman.h>

#include <cstdint>

namespace tally {

Mapping map_aligned(std::size_t bytes, int flags, int fd) {
  constexpr int kProtection = PROT_READ | PROT_WRITE;
  constexpr std::size_t kPage = 4096;
  if (bytes < kHugePage) {
    void* address = ::mmap(nullptr, bytes, kProtection, flags, fd, 0);
    return address == MAP_FAILED ? Mapping() : Mapping(address, bytes);
  }
  const std::size_t whole = (bytes + kPage - 1) / kPage * kPage;
  const std::size_t room = whole + kHugePage;
  void* reserved =
      ::mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return Mapping();
  auto* start = static_cast<std::byte*>(reserved);
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  const std::size_t before = (kHugePage - address % kHugePage) % kHugePage;
  void* mapped = ::mmap(start + before, bytes, kProtection, flags | MAP_FIXED, fd, 0);
  if (mapped == MAP_FAILED) {
    ::munmap(reserved, room);
    return Mapping();
  }
  if (before > 0) ::munmap(start, before);
  ::munmap(start + before + whole, room - before - whole);
  return Mapping(mapped, bytes);
}

Mapping map_own(std::size_t bytes, bool reserved) {
  constexpr int kOwn = MAP_PRIVATE | MAP_ANONYMOUS;
  if (!reserved) {
    Mapping mapped = map_aligned(bytes, kOwn, -1);
    if (mapped.size() >= kHugePage) ::madvise(mapped.data(), mapped.size(), MADV_HUGEPAGE);
    return mapped;
  }
  // When a cgroup limits the pool, pages beyond its limit fail at the first touch, with a signal.
  // So all pages are populated here, where the failure is an error.
  const std::size_t whole = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  Mapping mapped = map_aligned(whole, kOwn | MAP_HUGETLB | MAP_HUGE_2MB, -1);
  if (mapped && ::madvise(mapped.data(), whole, MADV_POPULATE_WRITE) != 0) mapped.reset();
  return mapped;
}

}  // namespace tally
