// The codes of element types and operations. They are not in element.h, because the objects of one
// instruction set must not include inline functions (summation/kernel.h has the reason).
#pragma once

#include <cstdint>

namespace tally {

// The numbers are part of the wire format and of the C ABI, so new codes are only appended.
enum class ElementType : std::uint8_t { kF32, kF64, kF16, kBf16, kI8, kU8, kI32, kI64 };
enum class Operation : std::uint8_t { kSum, kAverage, kMin, kMax };

inline constexpr int kElementTypeCount = 8;
inline constexpr int kOperationCount = 4;

}  // namespace tally
