#include "perf/gradients/gradient.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "perf/gradients/gradient_kernels.h"

namespace tally::perf {
namespace {

std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// `high` has the bits of the element's position above 2^32, which the kernels do not see.
StreamState stream_state(const GradientSpec& spec, std::uint32_t rank, std::uint32_t stream,
                         std::uint32_t high) {
  const std::uint64_t shared =
      mix64(mix64(spec.seed + 0x9e3779b97f4a7c15) ^ (std::uint64_t{stream} << 32 | spec.round));
  StreamState state;
  state.key = static_cast<std::uint32_t>(mix64(shared ^ (std::uint64_t{high} << 32 | (rank + 1))));
  state.salt = static_cast<std::uint32_t>(shared);
  state.integers = spec.integers;
  if (spec.specials != Specials::kNone) {
    state.subnormal_at = 0;
    state.zero_at = 1;
  }
  if (spec.specials == Specials::kAll) {
    state.infinity_at = 2;
    state.nan_at = 3;
  }
  return state;
}

alignas(64) thread_local std::array<std::byte, kGradientBlock * 8> block_memory;

// Calls action(high, low, count, offset) for blocks that cross neither kGradientBlock nor 2^32.
template <typename Action>
void for_each_block(std::uint64_t first, std::uint64_t count, Action action) {
  const std::uint64_t end = first + count;
  for (std::uint64_t at = first; at < end;) {
    const std::uint64_t stop = std::min(end, (at / kGradientBlock + 1) * kGradientBlock);
    action(static_cast<std::uint32_t>(at >> 32), static_cast<std::uint32_t>(at),
           static_cast<std::size_t>(stop - at), at - first);
    at = stop;
  }
}

// Computes the expected blocks one after the other: action(block, count, offset of its first).
template <typename Action>
void for_each_expected(const GradientSpec& spec, const Expectation& expectation,
                       std::uint32_t stream, std::uint64_t first, std::uint64_t count,
                       Action action) {
  assert(expectation.ranks >= 1 && expectation.ranks <= kMaxContributors);
  std::vector<StreamState> contributors(expectation.ranks);
  std::int64_t made_for = -1;
  for_each_block(first, count, [&](auto high, auto low, auto elements, auto offset) {
    if (std::exchange(made_for, high) != high) {
      for (std::uint32_t i = 0; i < expectation.ranks; ++i) {
        contributors[i] = stream_state(spec, expectation.first_rank + i, stream, high);
      }
    }
    const ExpectedBlock block{.contributors = contributors.data(),
                              .ranks = contributors.size(),
                              .operation = expectation.operation,
                              .divisor = expectation.ranks,
                              .moves_only = expectation.moves_only,
                              .first = low,
                              .count = elements};
    gradient_kernels().expect(spec.type, block, block_memory.data());
    action(block_memory.data(), elements, offset);
  });
}

std::uint64_t element_bits(const std::byte* data, std::size_t bytes) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, data, bytes);
  return bits;
}

// Counts the differences in a block that is known to have one.
void count_differences(const std::byte* expected, const std::byte* found, std::size_t count,
                       std::size_t bytes, std::uint64_t position, Mismatch& mismatch) {
  for (std::size_t i = 0; i < count; ++i) {
    if (std::memcmp(expected + i * bytes, found + i * bytes, bytes) == 0) continue;
    if (mismatch.wrong++ == 0) {
      mismatch.first = position + i;
      mismatch.expected_bits = element_bits(expected + i * bytes, bytes);
      mismatch.found_bits = element_bits(found + i * bytes, bytes);
    }
  }
}

template <typename Stored, typename Convert>
ResultStats stats_of(const std::byte* result, std::uint64_t count, Convert to_double) {
  constexpr std::uint64_t kBlock = 4096;
  ResultStats stats;
  for (std::uint64_t begin = 0; begin < count; begin += kBlock) {
    const std::uint64_t end = std::min(count, begin + kBlock);
    double squares = 0;
    for (std::uint64_t i = begin; i < end; ++i) {
      Stored stored;
      std::memcpy(&stored, result + i * sizeof stored, sizeof stored);
      const double value = to_double(stored);
      const bool finite = std::isfinite(value);
      squares += finite ? value * value : 0;
      stats.nonfinite += finite ? 0 : 1;
    }
    stats.sum_of_squares += squares;
  }
  return stats;
}

double f16_value(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 0x3ff;
  if (exponent == 31) return fraction != 0 ? NAN : INFINITY;
  return exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
}

double bf16_value(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

}  // namespace

const GradientKernels& gradient_kernels() {
#if defined(__x86_64__)
  static const GradientKernels& chosen = [&]() -> const GradientKernels& {
    if (__builtin_cpu_supports("avx512f")) return avx512::kernel_table;
    if (__builtin_cpu_supports("avx2")) return avx2::kernel_table;
    return baseline::kernel_table;
  }();
  return chosen;
#else
  return baseline::kernel_table;
#endif
}

void fill_gradient(const GradientSpec& spec, std::uint32_t rank, std::uint32_t stream,
                   std::uint64_t first, std::uint64_t count, std::byte* out) {
  const std::size_t bytes = element_bytes(spec.type);
  for_each_block(first, count, [&](auto high, auto low, auto elements, auto offset) {
    gradient_kernels().fill(spec.type, stream_state(spec, rank, stream, high), low, elements,
                            block_memory.data());
    std::memcpy(out + offset * bytes, block_memory.data(), elements * bytes);
  });
}

Mismatch compare_result(const GradientSpec& spec, const Expectation& expectation,
                        std::uint32_t stream, std::uint64_t first, std::uint64_t count,
                        const std::byte* result) {
  const std::size_t bytes = element_bytes(spec.type);
  Mismatch mismatch;
  for_each_expected(spec, expectation, stream, first, count,
                    [&](const std::byte* block, auto elements, auto offset) {
                      const std::byte* found = result + offset * bytes;
                      if (std::memcmp(block, found, elements * bytes) == 0) return;
                      count_differences(block, found, elements, bytes, first + offset, mismatch);
                    });
  return mismatch;
}

void expected_result(const GradientSpec& spec, const Expectation& expectation, std::uint32_t stream,
                     std::uint64_t first, std::uint64_t count, std::byte* out) {
  const std::size_t bytes = element_bytes(spec.type);
  for_each_expected(spec, expectation, stream, first, count,
                    [&](const std::byte* block, auto elements, auto offset) {
                      std::memcpy(out + offset * bytes, block, elements * bytes);
                    });
}

ResultStats result_stats(ElementType type, const std::byte* result, std::uint64_t count) {
  const auto as_is = [](auto value) { return static_cast<double>(value); };
  switch (type) {
    case ElementType::kF32:
      return stats_of<float>(result, count, as_is);
    case ElementType::kF64:
      return stats_of<double>(result, count, as_is);
    case ElementType::kF16:
      return stats_of<std::uint16_t>(result, count, f16_value);
    case ElementType::kBf16:
      return stats_of<std::uint16_t>(result, count, bf16_value);
    case ElementType::kI8:
      return stats_of<std::int8_t>(result, count, as_is);
    case ElementType::kU8:
      return stats_of<std::uint8_t>(result, count, as_is);
    case ElementType::kI32:
      return stats_of<std::int32_t>(result, count, as_is);
    case ElementType::kI64:
      return stats_of<std::int64_t>(result, count, as_is);
  }
  return {};
}

}  // namespace tally::perf
