// Replaces the global operator new of a test program, so that the program can tell how much memory
// it has allocated. Exactly one source of the program must include this file.
#pragma once

#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace tally::testing {

inline std::atomic<std::size_t> allocated{0};

// Bytes that operator new has given and that were not given back, with what the allocator adds to
// each piece.
inline std::size_t allocated_bytes() {
  return allocated;
}

inline std::size_t cost_of(void* memory) {
  constexpr std::size_t kHeader = 8;  // glibc's, before each piece
  return ::malloc_usable_size(memory) + kHeader;
}

inline void* allocate(std::size_t bytes, std::size_t alignment) {
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) throw std::bad_alloc();
  allocated += cost_of(memory);
  return memory;
}

inline void give_back(void* memory) {
  if (memory == nullptr) return;
  allocated -= cost_of(memory);
  std::free(memory);
}

}  // namespace tally::testing

// Not inlined, because g++ warns about the inlined code.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  return tally::testing::allocate(bytes, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return tally::testing::allocate(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  tally::testing::give_back(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  tally::testing::give_back(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  tally::testing::give_back(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  tally::testing::give_back(memory);
}
