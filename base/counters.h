// A counter with one writer thread and any number of reader threads.
#pragma once

#include <atomic>
#include <cstdint>

namespace tally {

class Counter {
 public:
  // Only the writer thread calls this. It is a plain addition without a locked instruction.
  void add(std::uint64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  std::uint64_t read() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

}  // namespace tally
