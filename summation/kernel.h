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

// A pass folds this many inputs at most; more are folded in groups, through `partial`.
inline constexpr std::size_t kMaxPassInputs = 16;

// A pass over a partial, or with scratch, has at most kPartialBytes / max(4, bytes of an element)
// elements. Small enough to stay in L1 beside the inputs, and to live on the stack.
inline constexpr std::size_t kPartialBytes = 4096;

// Lanes of the sum of squares: element i of a block belongs to lane i % kSquareLanes.
inline constexpr std::size_t kSquareLanes = 16;

// One walk over `count` elements of up to 16 inputs.
struct Pass {
  const std::byte* const* inputs = nullptr;
  std::size_t input_count = 0;
  std::byte* const* outputs = nullptr;
  std::size_t output_count = 0;
  std::size_t output_offset = 0;  // bytes into every output
  std::byte* scratch = nullptr;   // null, or one more output: what the statistics are made of
  std::size_t count = 0;
  // Accumulators between groups, aligned to 64, in a layout of the kernel's own.
  void* partial = nullptr;
  bool resume = false;        // starts from `partial` (else from inputs[0])
  bool finish = true;         // rounds and stores (else keeps accumulators in `partial`)
  bool stream = false;        // non-temporal stores; outputs are then aligned to 64
  std::uint32_t divisor = 1;  // 1 for everything but averages
};

using PassFunction = void (*)(const Pass&);

// Adds the squares of `count` finite elements to lanes[i % kSquareLanes] and returns how many were
// not finite. A call starts at lane 0.
using SquaresFunction = std::uint64_t (*)(const std::byte* elements, std::size_t count,
                                          double* lanes);

// The kernels of one element type: by operation, then by input count - 1.
struct TypeKernels {
  const PassFunction* pass[kOperationCount] = {};  // null where the scalar kernel serves
  SquaresFunction squares = nullptr;
};

// The kernels of one instruction set.
struct Kernels {
  const TypeKernels* type[kElementTypeCount] = {};  // null where the scalar kernels serve
  void (*drain)() = nullptr;  // orders streamed stores before what follows; null: nothing streams
};

extern const Kernels kScalarKernels;

// Each in the object that its instruction set and type need.
extern const TypeKernels kAvx2F32, kAvx2F64, kAvx2F16, kAvx2Bf16;
extern const TypeKernels kAvx2I8, kAvx2U8, kAvx2I32, kAvx2I64;
extern const TypeKernels kAvx512F32, kAvx512F64, kAvx512F16, kAvx512Bf16;
extern const TypeKernels kAvx512I8, kAvx512U8, kAvx512I32, kAvx512I64;

}  // namespace tally::summation
