// Keeps an object that enqueued work of a device may still use until the process ends. Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tally::client {

template <typename T>
void keep_until_exit(std::unique_ptr<T> object) {
  static std::mutex mutex;
  // Never destroyed. Reachable, so leak checkers do not report it.
  static auto& kept = *new std::vector<std::unique_ptr<T>>;
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(object));
}

}  // namespace tally::client
