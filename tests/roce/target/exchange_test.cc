#include "tests/roce/target/exchange.h"

#include <gtest/gtest.h>

namespace tally::transport::roce::target {
namespace {

const Endpoint kEndpoint{.number = 0x12,
                         .first_psn = 0xabcdef,
                         .gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 9, 0, 100},
                         .reads = 16,
                         .key = 0x89abcdef,
                         .address = 0x7f1234567000};

// What the programs print with sprintf; each of them sends the zero byte too.
TEST(RoceTargetExchange, WritesThePingpongText) {
  EXPECT_EQ(pingpong_text(kEndpoint),
            std::string("0000:000012:abcdef:00000000000000000000ffff0a090064\0", kPingpongBytes));
}

TEST(RoceTargetExchange, WritesThePerftestText) {
  const std::string text = perftest_text(kEndpoint);
  EXPECT_EQ(text, std::string("0000:0010:000012:abcdef:89abcdef:00007f1234567000:00:00:00:00:00:00:"
                              "00:00:00:00:ff:ff:0a:09:00:64:00000000:\0",
                              kPerftestBytes));
}

TEST(RoceTargetExchange, ReadsWhatItWrites) {
  EXPECT_EQ(parse_perftest(perftest_text(kEndpoint)), kEndpoint);
  Endpoint pingpong = kEndpoint;
  pingpong.reads = pingpong.key = 0;
  pingpong.address = 0;
  EXPECT_EQ(parse_pingpong(pingpong_text(kEndpoint)), pingpong);
}

TEST(RoceTargetExchange, RefusesTextsThatAreNotValid) {
  for (std::string text : {pingpong_text(kEndpoint), perftest_text(kEndpoint)}) {
    EXPECT_FALSE(parse_pingpong(text.substr(0, text.size() / 2)));
    EXPECT_FALSE(parse_perftest(text.substr(0, text.size() / 2)));
    text[text.find("abcdef")] = 'x';
    EXPECT_FALSE(parse_pingpong(text));
    EXPECT_FALSE(parse_perftest(text));
  }
  EXPECT_FALSE(parse_pingpong(std::string(kPingpongBytes, '\0')));
  EXPECT_FALSE(parse_perftest(std::string(kPerftestBytes, ':')));
}

TEST(RoceTargetExchange, NumbersMtusAsVerbs) {
  EXPECT_EQ(mtu_code(256), 1U);
  EXPECT_EQ(mtu_code(1024), 3U);
  EXPECT_EQ(mtu_code(4096), 5U);
}

}  // namespace
}  // namespace tally::transport::roce::target
