// The inner loops that make gradients and expected results. One source is compiled once per
// instruction set. Blocks are ordinary arrays of the element type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/element.h"

namespace tally::perf {

// Most elements of a block, so that the accumulator and one input fit in the first-level cache.
inline constexpr std::size_t kGradientBlock = 1024;

// The position of a class of special values among 64 (or 4096) consecutive elements. kNever means
// that the class does not occur.
inline constexpr std::uint32_t kNever = 0xffffffff;

// Element i of a stream is a hash of (key, i). Special values have the same positions at every
// rank, so that subnormals meet subnormals and zeros meet zeros.
struct StreamState {
  std::uint32_t key = 0;
  std::uint32_t salt = 0;  // the same at every rank
  std::uint32_t subnormal_at = kNever;
  std::uint32_t zero_at = kNever;
  std::uint32_t infinity_at = kNever;
  std::uint32_t nan_at = kNever;
  bool integers = false;  // small integers, without special values
};

struct ExpectedBlock {
  const StreamState* contributors = nullptr;  // in rank order
  std::size_t ranks = 0;
  Operation operation = Operation::kSum;
  std::uint32_t divisor = 1;
  bool moves_only = false;  // one contributor, whose bits arrive unchanged
  std::uint32_t first = 0;  // position of the first element, modulo 2^32
  std::size_t count = 0;    // 1..kGradientBlock
};

struct GradientKernels {
  void (*fill)(ElementType type, const StreamState& stream, std::uint32_t first, std::size_t count,
               void* out);
  void (*expect)(ElementType type, const ExpectedBlock& block, void* out);
};

// The fastest kernels that this processor runs.
const GradientKernels& gradient_kernels();

namespace baseline {
extern const GradientKernels kernel_table;
}
namespace avx2 {
extern const GradientKernels kernel_table;
}
namespace avx512 {
extern const GradientKernels kernel_table;
}

}  // namespace tally::perf
