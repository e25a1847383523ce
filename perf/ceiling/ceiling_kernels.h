// Moves memory as fast as one core can: reads all inputs, and stores their bitwise OR to all
// outputs. One source is compiled once per instruction set, as with gradient_kernels.h.
#pragma once

#include <cstddef>

namespace tally::perf {

struct StreamJob {
  const std::byte* const* inputs = nullptr;
  std::size_t input_count = 0;
  std::byte* const* outputs = nullptr;
  std::size_t output_count = 0;
  std::size_t begin = 0;  // bytes: the range to move, in multiples of kStreamStep
  std::size_t end = 0;
  bool past_caches = false;  // non-temporal stores
};

inline constexpr std::size_t kStreamStep = 256;

using StreamKernel = void (*)(const StreamJob&);

// The kernel with the widest vectors of this processor.
StreamKernel stream_kernel();

namespace baseline {
void stream(const StreamJob& job);
}
namespace avx2 {
void stream(const StreamJob& job);
}
namespace avx512 {
void stream(const StreamJob& job);
}

}  // namespace tally::perf
