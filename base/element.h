// Element types and operations: the table that the kernels, the wire format, the client and the
// tools read.
//
// To add a type or an operation, append its code (element_codes.h), its line in this file, and its
// scalar definition (summation/scalar.h). An instruction set without a kernel for it uses the
// scalar kernel.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/element_codes.h"

namespace tally {

struct ElementTypeInfo {
  ElementType type;
  std::string_view name;
  std::size_t bytes;
};

inline constexpr std::array kElementTypes = {
    ElementTypeInfo{ElementType::kF32, "f32", 4}, ElementTypeInfo{ElementType::kF64, "f64", 8},
    ElementTypeInfo{ElementType::kF16, "f16", 2}, ElementTypeInfo{ElementType::kBf16, "bf16", 2},
    ElementTypeInfo{ElementType::kI8, "i8", 1},   ElementTypeInfo{ElementType::kU8, "u8", 1},
    ElementTypeInfo{ElementType::kI32, "i32", 4}, ElementTypeInfo{ElementType::kI64, "i64", 8},
};
static_assert(kElementTypes.size() == kElementTypeCount);

inline constexpr std::array<std::string_view, kOperationCount> kOperationNames = {"sum", "avg",
                                                                                  "min", "max"};

constexpr std::size_t element_bytes(ElementType type) {
  return kElementTypes[static_cast<std::size_t>(type)].bytes;
}
constexpr std::string_view name(ElementType type) {
  return kElementTypes[static_cast<std::size_t>(type)].name;
}
constexpr std::string_view name(Operation operation) {
  return kOperationNames[static_cast<std::size_t>(operation)];
}

// Returns the type in which partial results are exact enough to continue. Sums and averages of f16
// and bf16 stay in f32 until their only rounding. All other operations fold in the element type. A
// partial result of an average is a sum, which the last step divides once.
constexpr ElementType partial_type(ElementType type, Operation operation) {
  const bool half = type == ElementType::kF16 || type == ElementType::kBf16;
  const bool adds = operation == Operation::kSum || operation == Operation::kAverage;
  return half && adds ? ElementType::kF32 : type;
}

// Both return nullopt when the table does not have the name.
std::optional<ElementType> parse_element_type(std::string_view name);
std::optional<Operation> parse_operation(std::string_view name);

}  // namespace tally
