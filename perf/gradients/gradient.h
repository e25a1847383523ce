// Test gradients. An element is a pure function of seed, rank, stream, round and element index, so
// every rank can compute the gradients of every other rank. A stream is one tensor. The check of a
// result needs no copy of any input.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/element.h"

namespace tally::perf {

enum class Specials : std::uint8_t {
  kNone,
  kFinite,  // for float types one element in 64 is subnormal, and one in 64 is a zero of either
            // sign
  kAll,     // as kFinite; one element in 4096 is infinite, and one in 4096 is a NaN with a payload
};

struct GradientSpec {
  ElementType type = ElementType::kF32;
  Specials specials = Specials::kNone;
  bool integers = false;  // from -32 to 31: sums of 8 ranks are exact in all types, in any order
  std::uint64_t seed = 1;
  std::uint32_t round = 0;  // each round has new gradients
};

// Writes elements [first, first + count) of the stream to `out` (any alignment).
void fill_gradient(const GradientSpec& spec, std::uint32_t rank, std::uint32_t stream,
                   std::uint64_t first, std::uint64_t count, std::byte* out);

// The ranks whose gradients meet in a range, and the operation on them.
struct Expectation {
  Operation operation = Operation::kSum;
  std::uint32_t first_rank = 0;
  std::uint32_t ranks = 1;  // first_rank, first_rank + 1, ...; 1..kMaxContributors
  bool moves_only = false;  // the result is the unchanged bits of one rank
};

inline constexpr std::uint32_t kMaxContributors = 1024;

struct Mismatch {
  std::uint64_t wrong = 0;  // elements whose bits differ
  std::uint64_t first = 0;  // the first of them: its index in the stream, and the bits of both
                            // values
  std::uint64_t expected_bits = 0;
  std::uint64_t found_bits = 0;
};

// Compares elements [first, first + count) of the stream's result, at `result`, bit for bit.
Mismatch compare_result(const GradientSpec& spec, const Expectation& expectation,
                        std::uint32_t stream, std::uint64_t first, std::uint64_t count,
                        const std::byte* result);

// Writes the expected result; for tests. The arguments are those of compare_result().
void expected_result(const GradientSpec& spec, const Expectation& expectation, std::uint32_t stream,
                     std::uint64_t first, std::uint64_t count, std::byte* out);

// Computes the statistics of a stored result as TALLY_WANT_STATS defines them: in f64, over blocks
// of 4096 elements that are added in order. The service chooses the order within a block, so
// compare with a tolerance.
struct ResultStats {
  double sum_of_squares = 0;
  std::uint64_t nonfinite = 0;
};
ResultStats result_stats(ElementType type, const std::byte* result, std::uint64_t count);

}  // namespace tally::perf
