// Little-endian wire fields. They are strong types without implicit conversions, so code cannot
// confuse a host number with a wire field. Their alignment is 1, so a layout has no padding.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tally::wire {

template <std::size_t Bytes>
class LittleEndian {
  static_assert(Bytes >= 1 && Bytes <= 8);

 public:
  constexpr std::uint64_t get() const {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < Bytes; ++i) {
      value |= static_cast<std::uint64_t>(bytes_[i]) << (8 * i);
    }
    return value;
  }
  // Drops the high bytes of the value that do not fit. The caller must check the value against kMax
  // first.
  constexpr void set(std::uint64_t value) {
    for (std::size_t i = 0; i < Bytes; ++i) {
      bytes_[i] = static_cast<std::uint8_t>(value >> (8 * i));
    }
  }

  static constexpr std::uint64_t kMax = Bytes == 8 ? UINT64_MAX : (1ULL << (8 * (Bytes % 8))) - 1;

 private:
  std::array<std::uint8_t, Bytes> bytes_{};
};

using Le8 = LittleEndian<1>;
using Le16 = LittleEndian<2>;
using Le32 = LittleEndian<4>;
using Le48 = LittleEndian<6>;
using Le64 = LittleEndian<8>;

}  // namespace tally::wire
