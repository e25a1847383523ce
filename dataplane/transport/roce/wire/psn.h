// Packet sequence numbers (PSN): 24 bits, and the number after the highest is 0. Half of the
// numbers count as before a number, half as after it (InfiniBand specification, section 9.7.2).
#pragma once

#include <cstdint>

namespace tally::transport::roce {

class Psn {
 public:
  static constexpr std::uint32_t kCount = 1U << 24;

  constexpr Psn() = default;
  // Takes the low 24 bits.
  constexpr explicit Psn(std::uint32_t number) : number_(number & (kCount - 1)) {}

  constexpr std::uint32_t number() const { return number_; }
  constexpr Psn operator+(std::uint32_t packets) const { return Psn(number_ + packets); }
  constexpr Psn operator-(std::uint32_t packets) const { return Psn(number_ - packets); }
  // How far this number is after the other: -2^23 to 2^23 - 1.
  constexpr std::int32_t after(Psn other) const {
    const std::uint32_t difference = (number_ - other.number_) & (kCount - 1);
    return difference < kCount / 2
               ? static_cast<std::int32_t>(difference)
               : static_cast<std::int32_t>(difference) - static_cast<std::int32_t>(kCount);
  }
  constexpr bool operator==(const Psn&) const = default;

 private:
  std::uint32_t number_ = 0;
};

}  // namespace tally::transport::roce
