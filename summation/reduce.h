// One-pass reduction of W inputs, and of partial sums of others, into 1..W outputs: the arithmetic
// of the whole service.
//
// The result is a pure function of the inputs in rank order. It does not depend on the instruction
// set, on how inputs are cut into spans, or on alignment: every instruction set gives the bits of
// the scalar kernel, which is the specification (scalar.h):
//   sum      left to right in rank order; f16 and bf16 are widened to f32, summed in f32 and
//            rounded once, to nearest even; integers wrap
//   average  the sum divided by `divisor` once, before the one rounding (IEEE division; integers:
//            the wrapped sum divided, truncated towards zero)
//   min/max  NaN wins; -0 < +0
//   partials partial sums of other ranks, in partial_type(): added one by one, in their order, to
//   the
//            sum of the inputs (the first one starts it where there are no inputs), before the
//            division and the rounding
//   any NaN result is the canonical quiet NaN (sign 0, only the top mantissa bit set);
//   infinities and subnormals are kept on every path.
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
  // The outputs are a partial result themselves: of partial_type(type, operation), not divided, not
  // rounded. They have no statistics, and are not streamed.
  bool partial_result = false;
  std::uint32_t divisor = 1;  // for kAverage: the number of ranks, >= 1
  std::size_t count = 0;      // elements in every input, partial and output
  // In rank order, each of count elements; every span a whole number of elements, at any alignment.
  // Inputs and partials are 1..kMaxInputs together.
  std::span<const View> inputs;
  // Partial results of others, each of count elements of partial_type(type, operation), likewise.
  std::span<const View> partials;
  // 1..kMaxInputs. An output may be exactly an input, or a partial, of its own element size (in
  // place); any other overlap is undefined.
  std::span<std::byte* const> outputs;
  // Of the stored result (after rounding); integers are counted as their values. Empty, or
  // stats_blocks(count) entries, overwritten. The first element begins a block.
  std::span<BlockStats> stats;
  // Store past the caches: for outputs that nobody reads soon and that do not fit.
  bool stream_outputs = false;
};

enum class Isa : std::uint8_t { kScalar, kAvx2, kAvx512 };
inline constexpr std::array<std::string_view, 3> kIsaNames = {"scalar", "avx2", "avx512"};

// The kernels of one instruction set. Immutable, safe to share between threads.
struct Kernels;

// Null when this processor lacks the instruction set.
const Kernels* kernels(Isa isa);

// The widest that this processor has.
Isa best_isa();

// Precondition: `reduction` keeps the rules above (asserted in debug builds). Allocates nothing,
// calls nothing outside; needs under 32 KiB of stack. Thread-safe on disjoint outputs.
void reduce(const Kernels& kernels, const Reduction& reduction);

}  // namespace tally::summation
