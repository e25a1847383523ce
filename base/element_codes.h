// The codes of element types and operations. Apart from element.h because the objects of one
// instruction set include nothing that has inline functions (summation/kernel.h tells why).
#pragma once

#include <cstdint>

namespace tally {

// The numbers are wire format and C ABI: append only.
enum class ElementType : std::uint8_t { kF32, kF64, kF16, kBf16, kI8, kU8, kI32, kI64 };
enum class Operation : std::uint8_t { kSum, kAverage, kMin, kMax };

inline constexpr int kElementTypeCount = 8;
inline constexpr int kOperationCount = 4;

}  // namespace tally
