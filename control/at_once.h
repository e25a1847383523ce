// The same for many, at the same time: for tools that ask many nodes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace tally::control {

// Calls action(0) to action(count - 1), on up to `threads` threads, each once; returns when all
// have returned. Precondition: actions do not throw.
template <typename Action>
void at_once(std::size_t count, std::size_t threads, const Action& action) {
  std::atomic<std::size_t> next{0};
  std::vector<std::jthread> workers;
  for (std::size_t i = 0; i < std::min(count, threads); ++i) {
    workers.emplace_back([&] {
      for (std::size_t mine = next++; mine < count; mine = next++) action(mine);
    });
  }
}

}  // namespace tally::control
