// The interface between reduce.cc and the objects of each instruction set.
//
// The compiler builds those objects with -m flags that some processors do not support. When two
// objects instantiate the same inline function or template, the linker keeps one copy. It may keep
// the AVX-512 copy, which then runs on every processor. So those objects include only the
// intrinsics and this header, and this header has only data: no functions and no templates.
#pragma once

#include <cstddef>
#include <cstdint>

#include "summation/codes.h"

namespace tally::summation {

// A simple pass folds up to 16 inputs into one output. Any other pass, with more inputs or outputs,
// folds groups of up to 8 inputs. With page-aligned tiles, a larger group would not fit the ways of
// the L1 cache. Instrumented builds take minutes to compile all kernels, so they compile only the
// few that exercise each path. These find the same faults.
#ifdef TALLY_FEW_KERNELS
inline constexpr std::size_t kMaxSimpleInputs = 6;
inline constexpr std::size_t kMaxGroupInputs = 4;
#else
inline constexpr std::size_t kMaxSimpleInputs = 16;
inline constexpr std::size_t kMaxGroupInputs = 8;
#endif

// A pass over accumulators, or with scratch, has at most kAccumulatorBytes / max(4, bytes of an
// element) elements. The accumulators are small enough for the stack and stay in L1 beside the
// inputs.
inline constexpr std::size_t kAccumulatorBytes = 4096;

// Lanes of the sum of squares. Element i of a block belongs to lane i % kSquareLanes.
inline constexpr std::size_t kSquareLanes = 16;

// One pass over `count` elements. A simple pass has one output and no scratch. It does not resume,
// stream or widen, and it finishes.
struct Pass {
  const std::byte* const* inputs = nullptr;
  std::size_t input_count = 0;
  std::byte* const* outputs = nullptr;
  std::size_t output_count = 0;
  std::size_t output_offset = 0;  // offset in bytes, the same for every output
  std::byte* scratch = nullptr;   // null, or one more output, the source of the statistics
  std::size_t count = 0;
  // Accumulators that one group passes to the next. They are aligned to 64 bytes, and their layout
  // is the kernel's own.
  void* accumulators = nullptr;
  bool resume = false;        // true: starts from `accumulators`; false: from inputs[0]
  bool finish = true;         // true: rounds and stores; false: keeps `accumulators`
  bool widen = false;         // writes f32 outputs without rounding; only sums of f16 and bf16
  bool stream = false;        // non-temporal stores; outputs must be aligned to 64 bytes
  std::uint32_t divisor = 1;  // 1 for every operation except averages
};

using PassFunction = void (*)(const Pass&);

// Adds the squares of `count` elements to lanes[i % kSquareLanes], and skips those that are not
// finite. Returns how many were not finite. Each call starts at lane 0.
using SquaresFunction = std::uint64_t (*)(const std::byte* elements, std::size_t count,
                                          double* lanes);

// The kernels of one operation. The index is the number of inputs minus 1.
struct OperationKernels {
  const PassFunction* simple = nullptr;  // kMaxSimpleInputs entries; null: the scalar kernels serve
  const PassFunction* general = nullptr;  // kMaxGroupInputs entries
  // kMaxGroupInputs general kernels for inputs that are partial sums in f32. Null when partial
  // results have the element type.
  const PassFunction* partials = nullptr;
};

struct TypeKernels {
  OperationKernels operation[kOperationCount] = {};
  SquaresFunction squares = nullptr;
};

// The kernels of one instruction set.
struct Kernels {
  const TypeKernels* type[kElementTypeCount] = {};  // null: the scalar kernels serve
  void (*drain)() = nullptr;  // orders streamed stores before later stores; null: no kernel streams
};

extern const Kernels scalar_kernels;

// Each one is in the object of its instruction set and type.
extern const TypeKernels avx2_f32, avx2_f64, avx2_f16, avx2_bf16;
extern const TypeKernels avx2_i8, avx2_u8, avx2_i32, avx2_i64;
extern const TypeKernels avx512_f32, avx512_f64, avx512_f16, avx512_bf16;
extern const TypeKernels avx512_i8, avx512_u8, avx512_i32, avx512_i64;

}  // namespace tally::summation
