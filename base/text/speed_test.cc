#include "base/text/speed.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <utility>

namespace tally {
namespace {

TEST(Speed, IsANumberAndAUnit) {
  for (const auto& [text, bytes] :
       std::initializer_list<std::pair<const char*, double>>{{"100Gbit", 12.5e9},
                                                             {"100Gbit/s", 12.5e9},
                                                             {"100 Gbit", 12.5e9},
                                                             {"12.5GB", 12.5e9},
                                                             {"800bit", 100},
                                                             {"7B/s", 7},
                                                             {"1e3kB", 1e6},
                                                             {"1MiB", 1048576},
                                                             {"2Tbit", 250e9},
                                                             {"0.5Gibit", 67108864}}) {
    const auto speed = parse_speed(text);
    ASSERT_TRUE(speed.ok()) << text;
    EXPECT_DOUBLE_EQ(*speed, bytes) << text;
  }
}

TEST(Speed, RefusesTheRest) {
  for (const char* text : {"", "fast", "100", "100G", "-1GB", "0GB", "1e999GB", "nanGB", "infGB",
                           "1XB", "1GBs", "1GB/", "GB", "1Gbyte", "1 GB x"}) {
    const auto speed = parse_speed(text);
    ASSERT_FALSE(speed.ok()) << text;
    EXPECT_EQ(speed.error().message,
              fmt::format("\"{}\" is not a speed like 100Gbit or 12.5GB", text));
  }
}

TEST(Speed, IsWrittenInDecimalUnits) {
  EXPECT_EQ(speed_text(12.5e9), "12.5 GB/s");
  EXPECT_EQ(speed_text(1e15), "1000 TB/s");
  EXPECT_EQ(speed_text(1.25e6), "1.25 MB/s");
  EXPECT_EQ(speed_text(2500), "2.5 kB/s");
  EXPECT_EQ(speed_text(7), "7 B/s");
}

}  // namespace
}  // namespace tally
