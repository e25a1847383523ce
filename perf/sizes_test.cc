#include "perf/sizes.h"

#include <gtest/gtest.h>

namespace tally::perf {
namespace {

TEST(Sizes, ParsesUnits) {
  EXPECT_EQ(parse_bytes("0").value(), 0u);
  EXPECT_EQ(parse_bytes("17").value(), 17u);
  EXPECT_EQ(parse_bytes("4K").value(), 4096u);
  EXPECT_EQ(parse_bytes("4k").value(), 4096u);
  EXPECT_EQ(parse_bytes("25M").value(), 25u * 1024 * 1024);
  EXPECT_EQ(parse_bytes("25MiB").value(), 25u * 1024 * 1024);
  EXPECT_EQ(parse_bytes("2GB").value(), std::uint64_t{2} << 30);
  EXPECT_EQ(parse_bytes("9B").value(), 9u);
}

TEST(Sizes, RefusesWhatIsNoSize) {
  for (const char* text : {"", "K", "-1", "4X", "4KK", "1.5M", "4 K", "4Ki", "99999999999999999999",
                           "99999999999T", " 4"}) {
    EXPECT_FALSE(parse_bytes(text).ok()) << text;
  }
}

TEST(Sizes, FormatIsExactAndParsesBack) {
  EXPECT_EQ(format_bytes(0), "0");
  EXPECT_EQ(format_bytes(4096), "4K");
  EXPECT_EQ(format_bytes(25 * 1024 * 1024), "25M");
  for (const std::uint64_t bytes : {1ull, 1023ull, 1024ull, 1025ull, 3ull << 30, 1ull << 50}) {
    EXPECT_EQ(parse_bytes(format_bytes(bytes)).value(), bytes);
  }
}

TEST(Sizes, SweepHitsBothEndsWhenTheyMeet) {
  EXPECT_EQ(size_sweep(4, 32, 2), (std::vector<std::uint64_t>{4, 8, 16, 32}));
  EXPECT_EQ(size_sweep(4, 31, 2), (std::vector<std::uint64_t>{4, 8, 16}));
  EXPECT_EQ(size_sweep(5, 5, 2), (std::vector<std::uint64_t>{5}));
  EXPECT_EQ(size_sweep(std::uint64_t{1} << 62, UINT64_MAX, 2).size(), 2u);
}

}  // namespace
}  // namespace tally::perf
