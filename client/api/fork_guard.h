// Tells whether this process is a child of a fork of the process that made the guard. The guard is
// a page that the kernel wipes in children (MADV_WIPEONFORK). in_child() is one load without a
// system call. The guard also detects raw clone().
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include "base/system/fd.h"

namespace tally::client {

class ForkGuard {
 public:
  // Throws std::system_error when there is no memory.
  ForkGuard() {
    void* page =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "a page");
    page_ = Mapping(page, kBytes);
    mark().store(1, std::memory_order_relaxed);
    ::madvise(page, kBytes, MADV_WIPEONFORK);
  }

  bool in_child() const { return mark().load(std::memory_order_relaxed) == 0; }

 private:
  static constexpr std::size_t kBytes = 4096;

  std::atomic<std::uint32_t>& mark() const {
    return *reinterpret_cast<std::atomic<std::uint32_t>*>(page_.data());
  }

  Mapping page_;
};

}  // namespace tally::client
