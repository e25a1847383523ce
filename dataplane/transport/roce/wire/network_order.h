// Fields of 1 to 8 bytes in network byte order, and the checksum of the internet protocols.
// The caller has checked that the bytes are there.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace tally::transport::roce::network_order {

inline std::uint16_t swapped(std::uint16_t value) {
  return __builtin_bswap16(value);
}
inline std::uint32_t swapped(std::uint32_t value) {
  return __builtin_bswap32(value);
}
inline std::uint64_t swapped(std::uint64_t value) {
  return __builtin_bswap64(value);
}

// One instruction to load or store the bytes and one to turn them round.
template <typename Unsigned>
Unsigned load(const std::byte* from) {
  Unsigned value;
  std::memcpy(&value, from, sizeof value);
  return std::endian::native == std::endian::little ? swapped(value) : value;
}
template <typename Unsigned>
void store(std::byte* to, Unsigned value) {
  if (std::endian::native == std::endian::little) value = swapped(value);
  std::memcpy(to, &value, sizeof value);
}

// The callers' `bytes` are constants, so only one case is left of these.
inline std::uint64_t get(std::span<const std::byte> from, std::size_t at, std::size_t bytes) {
  if (bytes == 2) return load<std::uint16_t>(from.data() + at);
  if (bytes == 4) return load<std::uint32_t>(from.data() + at);
  if (bytes == 8) return load<std::uint64_t>(from.data() + at);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    value = value << 8 | std::to_integer<std::uint64_t>(from[at + i]);
  }
  return value;
}

inline void put(std::span<std::byte> to, std::size_t at, std::size_t bytes, std::uint64_t value) {
  if (bytes == 2) return store(to.data() + at, static_cast<std::uint16_t>(value));
  if (bytes == 4) return store(to.data() + at, static_cast<std::uint32_t>(value));
  if (bytes == 8) return store(to.data() + at, value);
  for (std::size_t i = bytes; i-- > 0; value >>= 8) to[at + i] = static_cast<std::byte>(value);
}

// The ones' complement sum of RFC 1071, not yet folded. `before`: the sum of the bytes before
// these, which were even in number.
inline std::uint64_t sum_of(std::span<const std::byte> bytes, std::uint64_t before = 0) {
  std::uint64_t sum = before;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) sum += get(bytes, i, 2);
  if (bytes.size() % 2 != 0) sum += std::to_integer<std::uint64_t>(bytes.back()) << 8;
  return sum;
}

// The checksum field for this sum. It is 0 for bytes that contain their own right checksum.
inline std::uint16_t checksum_of(std::uint64_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

}  // namespace tally::transport::roce::network_order
