// What reduce.cc and the objects of each instruction set say to each other.
//
// Those objects are compiled with -m flags that not every processor has. An inline function or a
// template that two objects instantiate is kept once by the linker, and the copy it keeps may be
// the AVX-512 one, which then runs everywhere. So those objects include only the intrinsics and
// this header, and this header has data only: no functions, no templates.
#pragma once

#include <cstddef>
#include <cstdint>

#include "summation/codes.h"

namespace tally::summation {

// A simple pass folds up to 16 inputs into one output. What is not simple, more inputs or outputs,
// is folded in groups of up to 8: with page-aligned tiles more would not fit the L1 cache's ways.
// Instrumented builds take minutes for all of them, and find as much in the few that meet each
// path.
#ifdef TALLY_FEW_KERNELS
inline constexpr std::size_t kMaxSimpleInputs = 6;
inline constexpr std::size_t kMaxGroupInputs = 4;
#else
inline constexpr std::size_t kMaxSimpleInputs = 16;
inline constexpr std::size_t kMaxGroupInputs = 8;
#endif

// A pass over accumulators, or with scratch, has at most kAccumulatorBytes / max(4, bytes of an
// element) elements. Small enough to stay in L1 beside the inputs, and to live on the stack.
inline constexpr std::size_t kAccumulatorBytes = 4096;

// Lanes of the sum of squares: element i of a block belongs to lane i % kSquareLanes.
inline constexpr std::size_t kSquareLanes = 16;

// One walk over `count` elements. A simple pass has one output and no scratch, does not resume,
// stream or widen, and finishes.
struct Pass {
  const std::byte* const* inputs = nullptr;
  std::size_t input_count = 0;
  std::byte* const* outputs = nullptr;
  std::size_t output_count = 0;
  std::size_t output_offset = 0;  // bytes into every output
  std::byte* scratch = nullptr;   // null, or one more output: what the statistics are made of
  std::size_t count = 0;
  // Accumulators between groups, aligned to 64, in a layout of the kernel's own.
  void* accumulators = nullptr;
  bool resume = false;        // starts from `accumulators` (else from inputs[0])
  bool finish = true;         // rounds and stores (else keeps `accumulators`)
  bool widen = false;         // finishes with f32 outputs, not rounded; only sums of halves can
  bool stream = false;        // non-temporal stores; outputs are then aligned to 64
  std::uint32_t divisor = 1;  // 1 for everything but averages
};

using PassFunction = void (*)(const Pass&);

// Adds the squares of `count` finite elements to lanes[i % kSquareLanes] and returns how many were
// not finite. A call starts at lane 0.
using SquaresFunction = std::uint64_t (*)(const std::byte* elements, std::size_t count,
                                          double* lanes);

// The kernels of one operation, by input count - 1.
struct OperationKernels {
  const PassFunction* simple = nullptr;  // kMaxSimpleInputs of them; null: the scalar kernels serve
  const PassFunction* general = nullptr;  // kMaxGroupInputs of them
  // kMaxGroupInputs of them, general, whose inputs are partial sums in f32; null where partial
  // results are of the element type.
  const PassFunction* partials = nullptr;
};

struct TypeKernels {
  OperationKernels operation[kOperationCount] = {};
  SquaresFunction squares = nullptr;
};

// The kernels of one instruction set.
struct Kernels {
  const TypeKernels* type[kElementTypeCount] = {};  // null where the scalar kernels serve
  void (*drain)() = nullptr;  // orders streamed stores before what follows; null: nothing streams
};

extern const Kernels scalar_kernels;

// Each in the object that its instruction set and type need.
extern const TypeKernels avx2_f32, avx2_f64, avx2_f16, avx2_bf16;
extern const TypeKernels avx2_i8, avx2_u8, avx2_i32, avx2_i64;
extern const TypeKernels avx512_f32, avx512_f64, avx512_f16, avx512_bf16;
extern const TypeKernels avx512_i8, avx512_u8, avx512_i32, avx512_i64;

}  // namespace tally::summation
