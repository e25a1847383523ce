// Replaces the global operator new of a test program, so that a thread can make one of its next
// allocations fail. Exactly one source of the program must include this file.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace tally::testing {

inline thread_local std::size_t allocations_left = 0;  // until one fails; 0 means that none fails

// Makes the n-th allocation of this thread from now on fail, counted from 1. With 0 none fails.
inline void fail_allocation(std::size_t n) {
  allocations_left = n;
}

inline void* allocate(std::size_t bytes, std::size_t alignment) {
  if (allocations_left > 0 && --allocations_left == 0) throw std::bad_alloc();
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace tally::testing

// Not inlined, because g++ warns about the inlined code.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  return tally::testing::allocate(bytes, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return tally::testing::allocate(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
