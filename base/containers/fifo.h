// A queue in a ring buffer, for sessions with many queues. A new queue has no memory, and an empty
// one keeps at most kKept items' worth of it. (A std::deque allocates half a KiB at the start.) The
// ring doubles when it is full.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace tally {

// Not thread-safe. References are valid until the queue changes, so none is an argument.
template <typename T>
class Fifo {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  // An empty queue keeps a ring of at most so many items, so few items at a time allocate nothing.
  static constexpr std::size_t kKept =
      std::bit_floor(std::clamp<std::size_t>(256 / sizeof(T), 1, 4));

  bool empty() const { return count_ == 0; }
  std::size_t size() const { return count_; }
  // Precondition: the index is below size().
  const T& operator[](std::size_t index) const { return ring_[index_of(index)]; }
  T& operator[](std::size_t index) { return ring_[index_of(index)]; }
  // Precondition of the next five: the queue is not empty.
  const T& front() const { return ring_[first_]; }
  T& front() { return ring_[first_]; }
  T& back() { return ring_[index_of(count_ - 1)]; }
  void pop_front() {
    first_ = static_cast<std::uint32_t>(index_of(1));
    if (--count_ == 0) clear();
  }
  void pop_back() {
    if (--count_ == 0) clear();
  }

  void push_back(const T& item) {
    if (count_ == ring_.size()) grow();
    ring_[index_of(count_++)] = item;
  }
  // Puts the item before the one with this index; size(): at the end.
  void insert(std::size_t index, const T& item) {
    if (count_ == ring_.size()) grow();
    ++count_;
    if (index < count_ / 2) {
      first_ = static_cast<std::uint32_t>(index_of(ring_.size() - 1));
      for (std::size_t i = 0; i < index; ++i) (*this)[i] = (*this)[i + 1];
    } else {
      for (std::size_t i = count_ - 1; i > index; --i) (*this)[i] = (*this)[i - 1];
    }
    (*this)[index] = item;
  }
  void clear() {
    first_ = count_ = 0;
    if (ring_.size() > kKept) ring_ = std::vector<T>();
  }

 private:
  std::size_t index_of(std::size_t index) const { return (first_ + index) & (ring_.size() - 1); }
  void grow() {
    std::vector<T> longer(std::max(kKept, 2 * ring_.size()));
    for (std::size_t i = 0; i < count_; ++i) longer[i] = (*this)[i];
    ring_ = std::move(longer);
    first_ = 0;
  }

  std::vector<T> ring_;  // its size is 0 or a power of two
  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;
};

}  // namespace tally
