#include "net/server/wrong_keys.h"

#include <gtest/gtest.h>

namespace tally::rpc {
namespace {

TEST(WrongKeys, ASourceMayBeWrongAFewTimes) {
  WrongKeys keys;
  for (int i = 0; i < WrongKeys::kFree; ++i) keys.add("a", 0);
  EXPECT_EQ(keys.wait_of("a", 0), 0);
  keys.add("a", 0);
  EXPECT_EQ(keys.wait_of("a", 0), WrongKeys::kFirstWait);
  keys.add("a", 0);
  EXPECT_EQ(keys.wait_of("a", 0), 2 * WrongKeys::kFirstWait);
  EXPECT_EQ(keys.wait_of("b", 0), 0) << "others are not slowed down";
}

TEST(WrongKeys, TheWaitBeginsWithTheLastWrongKey) {
  WrongKeys keys;
  for (int i = 0; i <= WrongKeys::kFree; ++i) keys.add("a", kSecond);
  EXPECT_TRUE(keys.must_wait("a", kSecond));
  EXPECT_TRUE(keys.must_wait("a", kSecond + WrongKeys::kFirstWait - 1));
  EXPECT_FALSE(keys.must_wait("a", kSecond + WrongKeys::kFirstWait));
  EXPECT_FALSE(keys.must_wait("b", kSecond));
}

TEST(WrongKeys, TheWaitHasALimit) {
  WrongKeys keys;
  for (int i = 0; i < 10'000; ++i) keys.add("a", 0);
  EXPECT_EQ(keys.wait_of("a", 0), WrongKeys::kLongestWait);
}

TEST(WrongKeys, TimeForgives) {
  WrongKeys keys;
  for (int i = 0; i < 10'000; ++i) keys.add("a", 0);
  EXPECT_EQ(keys.wait_of("a", 60 * kSecond), 0);
}

TEST(WrongKeys, ManySourcesTakeNoMoreThanTheirTable) {
  WrongKeys keys;
  for (int i = 0; i < WrongKeys::kFree + 1; ++i) keys.add("guesser", 0);
  for (int i = 0; i < 20'000; ++i) keys.add("source " + std::to_string(i), 0);
  EXPECT_LE(keys.sources(), WrongKeys::kMostSources);
  EXPECT_GT(keys.wait_of("guesser", 0), 0) << "sources with few wrong keys are forgotten first";
}

}  // namespace
}  // namespace tally::rpc
