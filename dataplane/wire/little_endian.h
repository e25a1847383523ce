// Little-endian wire fields: strong types with no implicit conversion, so that a host number and a
// wire field cannot be mixed up, and with alignment 1, so that a layout is what it says.
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
  // The value's high bytes that do not fit are dropped: the caller has checked (kMax).
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
