#include "base/text/sizes.h"

#include <gtest/gtest.h>

namespace tally {
namespace {

TEST(Sizes, ParsesUnits) {
  EXPECT_EQ(parse_size("0").value(), 0u);
  EXPECT_EQ(parse_size("17").value(), 17u);
  EXPECT_EQ(parse_size("4K").value(), 4096u);
  EXPECT_EQ(parse_size("4k").value(), 4096u);
  EXPECT_EQ(parse_size("256 KiB").value(), 256u * 1024);
  EXPECT_EQ(parse_size("25M").value(), 25u * 1024 * 1024);
  EXPECT_EQ(parse_size("25MiB").value(), 25u * 1024 * 1024);
  EXPECT_EQ(parse_size("2GiB").value(), std::uint64_t{2} << 30);
  EXPECT_EQ(parse_size("1T").value(), std::uint64_t{1} << 40);
  EXPECT_EQ(parse_size("9B").value(), 9u);
}

TEST(Sizes, RefusesOtherTexts) {
  for (const char* text : {"", "K", "MiB", "-1", "4X", "4KK", "1.5M", "4Ki", "4MB", "0x10", " 4",
                           "99999999999999999999", "99999999999T", "4 MiB "}) {
    EXPECT_FALSE(parse_size(text).ok()) << text;
  }
}

TEST(Sizes, TextsAreExactAndParseBack) {
  EXPECT_EQ(size_text(0), "0");
  EXPECT_EQ(size_text(4 << 20), "4MiB");
  EXPECT_EQ(size_text(4097), "4097");
  EXPECT_EQ(short_size_text(4096), "4K");
  EXPECT_EQ(short_size_text(25 * 1024 * 1024), "25M");
  for (const std::uint64_t bytes : {1ull, 1023ull, 1024ull, 1025ull, 3ull << 30, 1ull << 50}) {
    EXPECT_EQ(parse_size(size_text(bytes)).value(), bytes);
    EXPECT_EQ(parse_size(short_size_text(bytes)).value(), bytes);
  }
}

TEST(Sizes, SweepHitsBothEndsWhenTheyMeet) {
  EXPECT_EQ(size_sweep(4, 32, 2), (std::vector<std::uint64_t>{4, 8, 16, 32}));
  EXPECT_EQ(size_sweep(4, 31, 2), (std::vector<std::uint64_t>{4, 8, 16}));
  EXPECT_EQ(size_sweep(5, 5, 2), (std::vector<std::uint64_t>{5}));
  EXPECT_EQ(size_sweep(std::uint64_t{1} << 62, UINT64_MAX, 2).size(), 2u);
}

}  // namespace
}  // namespace tally
