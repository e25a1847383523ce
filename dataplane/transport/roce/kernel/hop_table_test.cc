#include "dataplane/transport/roce/kernel/hop_table.h"

#include <gtest/gtest.h>

namespace tally::transport::roce {
namespace {

constexpr HopTableOptions kSmall = {
    .most_entries = 2, .retry = 10 * kMillisecond, .renewal = kSecond, .lifetime = 60 * kSecond};
constexpr MacAddress kMac = {2, 0, 0, 0, 0, 7};
constexpr Resolution kKnown = {.reach = Reach::kKnown, .mac = kMac};
constexpr Resolution kAsked = {.reach = Reach::kAsked};

constexpr IpAddress ipv4(std::uint8_t last) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 9, 0, last};
}

class HopTableTest : public ::testing::Test {
 protected:
  Resolution resolve(std::uint8_t last = 1) { return table_.resolve(ipv4(last), now_); }
  void record(const Resolution& answer, std::uint8_t last = 1) {
    table_.record(ipv4(last), answer, now_);
  }

  HopTable table_{kSmall};
  Nanos now_ = kSecond;
};

TEST_F(HopTableTest, ANewAddressIsDueAtOnceAndKnownAfterItsAnswer) {
  EXPECT_EQ(table_.next_deadline(), kForever);
  EXPECT_FALSE(table_.next_due(now_));
  EXPECT_EQ(resolve(), kAsked);
  EXPECT_EQ(table_.next_deadline(), now_);
  EXPECT_EQ(table_.next_due(now_), ipv4(1));
  EXPECT_FALSE(table_.next_due(now_));
  record(kKnown);
  EXPECT_EQ(resolve(), kKnown);
  EXPECT_EQ(table_.next_deadline(), now_ + kSmall.renewal);
}

TEST_F(HopTableTest, AnAddressThatTheKernelAsksForIsDueSoon) {
  resolve();
  record(kAsked);
  EXPECT_EQ(table_.next_deadline(), now_ + kSmall.retry);
  now_ += kSmall.retry;
  EXPECT_EQ(table_.next_due(now_), ipv4(1));
}

// The kernel's entry may be from an earlier time at which the host was down.
TEST_F(HopTableTest, AnAddressThatDoesNotAnswerIsDueSoonOnce) {
  resolve();
  record({.reach = Reach::kUnreachable});
  EXPECT_EQ(table_.next_deadline(), now_ + kSmall.retry);
  record(kAsked);
  EXPECT_EQ(table_.next_deadline(), now_ + kSmall.retry);
  record({.reach = Reach::kUnreachable});
  EXPECT_EQ(table_.next_deadline(), now_ + kSmall.renewal);
  record({.reach = Reach::kNoRoute});
  EXPECT_EQ(table_.next_deadline(), now_ + kSmall.renewal);
}

TEST_F(HopTableTest, TheOldMacServesUntilThereIsAnAnswer) {
  resolve();
  record(kKnown);
  record(kAsked);
  EXPECT_EQ(resolve(), kKnown);
  record({.reach = Reach::kUnreachable});
  EXPECT_EQ(resolve().reach, Reach::kUnreachable);
  record(kAsked);
  EXPECT_EQ(resolve(), kAsked);
  record({.reach = Reach::kKnown, .mac = {2, 0, 0, 0, 0, 8}});
  EXPECT_EQ(resolve().mac[5], 8);
  record({.reach = Reach::kNoRoute});
  EXPECT_EQ(resolve().reach, Reach::kNoRoute);
}

TEST_F(HopTableTest, TheAddressThatHasWaitedLongestIsNext) {
  resolve(1);
  record(kKnown, 1);
  now_ += kMillisecond;
  resolve(2);
  record(kKnown, 2);
  now_ += kSmall.renewal;
  EXPECT_EQ(table_.next_due(now_), ipv4(1));
  EXPECT_EQ(table_.next_due(now_), ipv4(2));
}

TEST_F(HopTableTest, AnAddressThatIsNotInUseIsForgotten) {
  resolve(1);
  now_ += kSmall.lifetime - 1;
  resolve(2);
  EXPECT_EQ(table_.entries(), 2U);
  EXPECT_EQ(table_.next_due(now_ + 1), ipv4(2));
  EXPECT_EQ(table_.entries(), 1U);
  record(kKnown, 1);  // its answer comes too late
  EXPECT_EQ(table_.entries(), 1U);
}

TEST_F(HopTableTest, AFullTableTakesAnAddressOnlyInPlaceOfAnUnusedOne) {
  resolve(1);
  now_ += 1;
  resolve(2);
  EXPECT_EQ(resolve(3).reach, Reach::kTableFull);
  now_ += kSmall.lifetime - 1;
  EXPECT_EQ(resolve(3), kAsked);
  EXPECT_EQ(table_.entries(), 2U);
  EXPECT_EQ(resolve(1).reach, Reach::kTableFull);
}

}  // namespace
}  // namespace tally::transport::roce
