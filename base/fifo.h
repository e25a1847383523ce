// A queue in one piece of memory, which grows with what it holds and is then kept: one that has
// never held anything has none. (A std::deque has half a KiB from the start, which counts where
// there are several for each session.)
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
  // Precondition, of both: not empty.
  const T& front() const { return items_[first_]; }
  void pop_front() {
    if (++first_ < items_.size()) return;
    items_.clear();
    first_ = 0;
  }
  void push_back(const T& item) {
    // At least half of the items have gone: their room is taken before more is asked for.
    if (items_.size() == items_.capacity() && 2 * first_ >= items_.size()) {
      items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
    items_.push_back(item);
  }

 private:
  std::vector<T> items_;  // from first_ on; those before have gone
  std::size_t first_ = 0;
};

}  // namespace tally
