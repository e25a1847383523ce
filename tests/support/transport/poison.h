// Marks memory that must not be read now. poison() fills it with a pattern; in a build with
// AddressSanitizer a read of it is an error. Without this, AddressSanitizer does not see stale
// reads of a buffer that is reused.
#pragma once

#include <cstddef>
#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
#define TALLY_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TALLY_ASAN 1
#endif
#endif

#if defined(TALLY_ASAN)
#include <sanitizer/asan_interface.h>
#endif

namespace tally::transport {

inline void unpoison(std::byte* memory, std::size_t bytes) {
#if defined(TALLY_ASAN)
  __asan_unpoison_memory_region(memory, bytes);
#else
  static_cast<void>(memory);
  static_cast<void>(bytes);
#endif
}

inline void poison(std::byte* memory, std::size_t bytes) {
  if (bytes == 0) return;
  std::memset(memory, 0xdd, bytes);
#if defined(TALLY_ASAN)
  __asan_poison_memory_region(memory, bytes);
#endif
}

}  // namespace tally::transport
