// One-pass reduction of W inputs, and of partial sums of other inputs, into 1..W outputs: the
// arithmetic of the whole service.
//
// The result is a pure function of the inputs in rank order. It does not depend on the instruction
// set, on the division of inputs into spans, or on alignment. Every instruction set gives the bits
// of the scalar kernel, which is the specification (scalar.h):
//   sum      left to right in rank order. f16 and bf16 are widened to f32, summed in f32 and
//            rounded once, to nearest even. Integers wrap.
//   average  the sum divided by `divisor` once, before the only rounding. Floats use IEEE
//            division. Integers divide the wrapped sum and truncate towards zero.
//   min/max  NaN wins; -0 < +0.
//   before   the partial result of the ranks before the inputs, in partial_type(). It is the first
//            operand. So several reductions over parts of the inputs give the bits of one.
//   partials partial sums of other ranks, in partial_type(). They are added to the sum of the
//            inputs one by one, in their order, before the division and the rounding. Without
//            inputs and `before`, the first partial starts the sum.
//   Any NaN result is the canonical quiet NaN (sign 0, only the top mantissa bit set).
//   Every path keeps infinities and subnormals.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/block_stats.h"
#include "base/view.h"
#include "summation/types.h"

namespace tally::summation {

inline constexpr std::size_t kMaxInputs = 1024;

using tally::BlockStats;
using tally::kStatsBlock;

struct Reduction {
  ElementType type = ElementType::kF32;
  Operation operation = Operation::kSum;
  // The outputs are a partial result of partial_type(type, operation): not divided and not rounded.
  // Such outputs have no statistics and are not streamed.
  bool partial_result = false;
  std::uint32_t divisor = 1;  // for kAverage: the number of ranks, at least 1
  std::size_t count = 0;      // number of elements in every input, partial and output
  // The inputs in rank order, each of `count` elements. Every span is a whole number of elements,
  // at any alignment. The total of inputs, partials and `before` is 1..kMaxInputs.
  std::span<const View> inputs;
  // Partial results of other ranks, each of `count` elements of partial_type(type, operation).
  // Their spans follow the rule of `inputs`.
  std::span<const View> partials;
  // The partial result of earlier inputs: `count` elements of partial_type(type, operation). Null
  // when there are no earlier inputs.
  const std::byte* before = nullptr;
  // 1..kMaxInputs outputs. An output may be exactly an input, a partial, or `before`, when the
  // element sizes are equal (in place). Any other overlap is undefined.
  std::span<std::byte* const> outputs;
  // Statistics of the stored result (after rounding). Integers count by their values. Empty, or
  // stats_blocks(count) entries, which reduce() overwrites. The first element begins a block.
  std::span<BlockStats> stats;
  // Store past the caches. For outputs that no thread reads soon and that do not fit into the
  // caches.
  bool stream_outputs = false;
};

enum class Isa : std::uint8_t { kScalar, kAvx2, kAvx512 };
inline constexpr std::array<std::string_view, 3> kIsaNames = {"scalar", "avx2", "avx512"};

// The kernels of one instruction set. They are immutable, so threads may share them.
struct Kernels;

// Returns null when this processor lacks the instruction set.
const Kernels* kernels(Isa isa);

// Returns the widest instruction set of this processor.
Isa best_isa();

// Precondition: `reduction` follows the rules above (debug builds assert them). Allocates nothing,
// calls no code outside this folder, and needs less than 32 KiB of stack. Threads may call it at
// the same time for disjoint outputs.
void reduce(const Kernels& kernels, const Reduction& reduction);

}  // namespace tally::summation
