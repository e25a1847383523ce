// Tells a child of a fork from the process that made this: a page that the kernel gives to children
// wiped. One load to ask, no system call; raw clone() is seen too.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include "base/fd.h"

namespace tally::client {

class ForkGuard {
 public:
  // Throws std::system_error when there is no memory.
  ForkGuard() {
    void* page =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "a page");
    page_ = Mapping(page, kBytes);
    word().store(1, std::memory_order_relaxed);
    ::madvise(page, kBytes, MADV_WIPEONFORK);
  }

  bool in_child() const { return word().load(std::memory_order_relaxed) == 0; }

 private:
  static constexpr std::size_t kBytes = 4096;

  std::atomic<std::uint32_t>& word() const {
    return *reinterpret_cast<std::atomic<std::uint32_t>*>(page_.data());
  }

  Mapping page_;
};

}  // namespace tally::client
