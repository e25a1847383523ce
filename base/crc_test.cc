// Both CRCs that ISA-L computes.
#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <array>
#include <string_view>
#include <vector>

#include "base/crc32.h"

namespace tally {
namespace {

const Crc32c& crc32c() {
  const auto opened = Crc32c::open();
  if (!opened) throw std::runtime_error(opened.error().message);
  return **opened;
}

// Bit by bit, as the definition has it.
std::uint32_t slow(std::span<const std::byte> bytes) {
  std::uint32_t state = ~0u;
  for (const std::byte byte : bytes) {
    state ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) state = state >> 1 ^ ((state & 1) != 0 ? 0x82f63b78u : 0);
  }
  return ~state;
}

// RFC 3720, appendix B.4.
TEST(Crc32c, GivesTheValuesOfRfc3720) {
  std::array<std::byte, 32> bytes;
  const auto fill = [&](auto&& value) {
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(value(i));
  };
  fill([](std::size_t) { return 0; });
  EXPECT_EQ(crc32c()(bytes), 0x8a9136aau);
  fill([](std::size_t) { return 0xff; });
  EXPECT_EQ(crc32c()(bytes), 0x62a8ab43u);
  fill([](std::size_t i) { return i; });
  EXPECT_EQ(crc32c()(bytes), 0x46dd794eu);
  fill([](std::size_t i) { return 31 - i; });
  EXPECT_EQ(crc32c()(bytes), 0x113fdb5cu);
}

TEST(Crc32c, AnyLengthAndPlace) {
  EXPECT_EQ(crc32c()({}), 0u);
  std::vector<std::byte> bytes(9000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 2654435761u);
  for (const std::size_t at : {0u, 1u, 7u}) {
    for (const std::size_t count : {1u, 3u, 8u, 63u, 255u, 1024u, 4096u, 4097u, 8192u}) {
      const auto some = std::span(bytes).subspan(at, count);
      EXPECT_EQ(crc32c()(some), slow(some)) << count << " bytes at " << at;
      EXPECT_EQ(crc32c().streamed(some), slow(some)) << count << " bytes at " << at;
    }
  }
}

TEST(Crc32c, PiecesGiveThatOfTheWhole) {
  std::vector<std::byte> bytes(5000, std::byte{0x5a});
  for (const std::size_t cut : {0u, 1u, 2040u, 4096u, 5000u}) {
    const auto all = std::span<const std::byte>(bytes);
    EXPECT_EQ(crc32c()(all.subspan(cut), crc32c()(all.first(cut))), crc32c()(all));
  }
}

const Crc32& crc32() {
  const auto opened = Crc32::open();
  if (!opened) throw std::runtime_error(opened.error().message);
  return **opened;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// The check value of CRC-32/ISO-HDLC in the catalogue of parametrised CRC algorithms.
TEST(Crc32, GivesTheCheckValue) {
  EXPECT_EQ(crc32()(bytes_of("123456789")), 0xcbf43926U);
  EXPECT_EQ(crc32()({}), 0U);
}

TEST(Crc32, GoesOnFromWhatPrecedes) {
  EXPECT_EQ(crc32()(bytes_of("6789"), crc32()(bytes_of("12345"))), 0xcbf43926U);
}

}  // namespace
}  // namespace tally
