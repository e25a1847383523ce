// Runs one action for many indexes in parallel, for tools that ask many nodes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace tally::control {

// Calls action(0) to action(count - 1), each once, on up to `threads` threads. Returns when all
// calls have returned. Precondition: actions do not throw.
template <typename Action>
void parallel_for(std::size_t count, std::size_t threads, const Action& action) {
  std::atomic<std::size_t> next{0};
  std::vector<std::jthread> workers;
  for (std::size_t i = 0; i < std::min(count, threads); ++i) {
    workers.emplace_back([&] {
      for (std::size_t mine = next++; mine < count; mine = next++) action(mine);
    });
  }
}

}  // namespace tally::control
