// A queue in one block of memory. The block grows with the queue and never shrinks. A queue that
// has never held an item has no block. (A std::deque allocates half a KiB at the start, which
// matters with several queues per session.)
#pragma once

#include <cstddef>
#include <type_traits>
#include <vector>

namespace tally {

// Not thread-safe.
template <typename T>
class Fifo {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  bool empty() const { return first_ == items_.size(); }
  std::size_t size() const { return items_.size() - first_; }
  // Precondition of front() and pop_front(): the queue is not empty.
  const T& front() const { return items_[first_]; }
  void pop_front() {
    if (++first_ < items_.size()) return;
    items_.clear();
    first_ = 0;
  }
  void push_back(const T& item) {
    // At least half of the stored items have left the queue: reuse their room before the vector
    // grows.
    if (items_.size() == items_.capacity() && 2 * first_ >= items_.size()) {
      items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
    items_.push_back(item);
  }

 private:
  std::vector<T> items_;  // the queue is items_[first_] and later; earlier items have left
  std::size_t first_ = 0;
};

}  // namespace tally
