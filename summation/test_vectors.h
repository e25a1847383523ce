// Inputs for the tests: values that kernels compute wrongly most easily, at any alignment.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "base/view.h"
#include "summation/scalar.h"
#include "summation/types.h"

namespace tally::summation::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

// kNumbers: ordinary values. kRare: a few special values among ordinary ones. kSubnormal: sums that
// stay tiny. kTies: few bits, so that sums lie half way between two results. kBits: random bits.
enum class Flavour { kNumbers, kRare, kSubnormal, kTies, kBits };
inline constexpr int kFlavours = 5;

using Random = std::mt19937_64;

// Returns the seed of the whole run and prints it once. TALLY_TEST_SEED sets it.
inline std::uint64_t seed() {
  static const std::uint64_t chosen = [] {
    const char* given = std::getenv("TALLY_TEST_SEED");
    const std::uint64_t value =
        given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
    std::printf("TALLY_TEST_SEED=%llu\n", static_cast<unsigned long long>(value));
    return value;
  }();
  return chosen;
}

inline float special_f32(std::uint64_t pick) {
  const std::uint32_t bits[] = {0x00000000, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00000,
                                0xffc00000, 0x7f800001, 0xff812345, 0x00000001, 0x80000001,
                                0x007fffff, 0x807fffff, 0x7f7fffff, 0xff7fffff, 0x00800000};
  return std::bit_cast<float>(bits[pick % std::size(bits)]);
}

inline float random_f32(Random& random, Flavour flavour, float largest) {
  const std::uint64_t r = random();
  const auto low = static_cast<std::uint32_t>(r);
  const bool negative = (r >> 40U) % 2 != 0;
  switch (flavour) {
    case Flavour::kRare:
      if ((r >> 41U) % 64 == 0) return special_f32(low);
      if ((r >> 41U) % 64 == 1) return negative ? -largest : largest;
      break;
    case Flavour::kSubnormal:
      return std::bit_cast<float>(low & 0x80ffffffU);
    case Flavour::kTies:
      return static_cast<float>(static_cast<int>(low % 8193) - 4096) * 0.5F;
    case Flavour::kBits:
      return std::bit_cast<float>(low);
    case Flavour::kNumbers:
      break;
  }
  const float value = static_cast<float>(low % 1000003 + 1) * 0x1p-16F;
  return negative ? -value : value;
}

// Makes an f16 or bf16. kBits and kSubnormal choose the bits directly.
inline std::uint16_t random_half(Random& random, Flavour flavour, ElementType type) {
  const bool f16 = type == ElementType::kF16;
  if (flavour == Flavour::kBits) return static_cast<std::uint16_t>(random());
  if (flavour == Flavour::kSubnormal) {
    return static_cast<std::uint16_t>(random() & (f16 ? 0x87ffU : 0x80ffU));
  }
  const float value = random_f32(random, flavour, f16 ? 65504.0F : 0x1.fep127F);
  return f16 ? scalar::round_f16(value) : scalar::round_bf16(value);
}

inline void fill(Random& random, Flavour flavour, ElementType type, std::byte* to,
                 std::size_t count) {
  const std::size_t bytes = element_bytes(type);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t bits = random();
    if (flavour == Flavour::kTies) bits = static_cast<std::uint64_t>(random() % 7) - 3;
    if (type == ElementType::kF32) {
      bits = std::bit_cast<std::uint32_t>(
          random_f32(random, flavour, std::numeric_limits<float>::max()));
    } else if (type == ElementType::kF64) {
      if (flavour == Flavour::kSubnormal) {
        bits = random() & 0x801fffffffffffffU;
      } else if (flavour != Flavour::kBits) {
        bits = std::bit_cast<std::uint64_t>(
            static_cast<double>(random_f32(random, flavour, std::numeric_limits<float>::max())));
      }
    } else if (type == ElementType::kF16 || type == ElementType::kBf16) {
      bits = random_half(random, flavour, type);
    }
    std::memcpy(to + i * bytes, &bits, bytes);  // little endian: the low bytes
  }
}

// Returns a number of bytes past a multiple of 64.
inline std::size_t random_shift(Random& random, std::size_t alignment) {
  return alignment == 64 ? 0 : random() % 64 / alignment * alignment;
}

// Memory that starts `shift` bytes past a multiple of 64. Guard bytes on both sides show writes
// outside the range.
class Buffer {
 public:
  Buffer(std::size_t bytes, std::size_t shift) : bytes_(bytes) {
    memory_.assign(bytes + 2 * kGuard + shift + 64, kGuardByte);
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data()) + kGuard;
    start_ = memory_.data() + kGuard + (64 - address % 64) % 64 + shift;
  }
  std::byte* data() const { return start_; }
  std::vector<std::byte> bytes() const { return {start_, start_ + bytes_}; }
  bool guards_intact() const {
    const auto intact = [](std::byte b) { return b == kGuardByte; };
    return std::all_of(const_cast<const std::byte*>(memory_.data()),
                       static_cast<const std::byte*>(start_), intact) &&
           std::all_of(static_cast<const std::byte*>(start_) + bytes_,
                       memory_.data() + memory_.size(), intact);
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kGuardByte{0xa5};

  std::size_t bytes_;
  std::vector<std::byte> memory_;
  std::byte* start_;
};

// `width` inputs, each divided into separate spans. Each span's memory ends with the span, so an
// address sanitizer reports a read past the end.
class Inputs {
 public:
  Inputs(Random& random, Flavour flavour, ElementType type, std::size_t width, std::size_t count,
         std::size_t spans, std::size_t alignment) {
    const std::size_t bytes = element_bytes(type);
    spans_.resize(width);
    for (std::size_t w = 0; w < width; ++w) {
      std::size_t left = count;
      for (std::size_t s = 0; s < spans; ++s) {
        const std::size_t n = s + 1 == spans ? left : random() % (left + 1);
        const std::size_t shift = random_shift(random, alignment);
        memory_.emplace_back(shift + n * bytes);
        std::byte* start = memory_.back().data() + shift;
        fill(random, flavour, type, start, n);
        spans_[w].push_back({start, n * bytes});
        left -= n;
      }
    }
    for (const auto& of_input : spans_) views_.emplace_back(of_input);
  }
  std::span<const View> views() const { return views_; }
  // Copies input `w` to `to` as one contiguous range.
  void copy(std::size_t w, std::byte* to) const {
    for (const Span& span : spans_[w]) to = std::copy_n(span.data, span.bytes, to);
  }

 private:
  std::vector<std::vector<std::byte>> memory_;
  std::vector<std::vector<Span>> spans_;
  std::vector<View> views_;
};

// Calls `body` for every type with every operation.
template <class Body>
void for_each_kernel(const Body& body) {
  for (const ElementTypeInfo& info : kElementTypes) {
    for (int o = 0; o < kOperationCount; ++o) body(info.type, static_cast<Operation>(o));
  }
}

}  // namespace tally::summation::test
