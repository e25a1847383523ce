#include "dataplane/transport/roce/kernel/kernel_next_hops.h"

#include <gtest/gtest.h>

#include "tests/support/roce/fake_kernel_tables.h"

namespace tally::transport::roce {
namespace {

using testing::FakeKernelTables;

constexpr IpAddress kTarget = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 9, 0, 1};
constexpr IpAddress kGateway = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
constexpr MacAddress kHopMac = {2, 0, 0, 0, 0, 7};
constexpr Resolution kFoundHop = {.reach = Reach::kKnown, .mac = kHopMac};

class LookUpTest : public ::testing::Test {
 protected:
  LookUpTest() { tables_.set_route(kTarget, {.is_answered = true, .hop = kGateway}); }

  Resolution look_up() { return roce::look_up(tables_, kTarget); }
  void set_entry(HopState state) { tables_.set_entry(kGateway, {.state = state, .mac = kHopMac}); }

  FakeKernelTables tables_;
};

TEST_F(LookUpTest, AKnownHopIsNotUsed) {
  set_entry(HopState::kKnown);
  EXPECT_EQ(look_up(), kFoundHop);
  EXPECT_TRUE(tables_.used().empty());
}

TEST_F(LookUpTest, AStaleHopIsKnownAndTheKernelVerifiesIt) {
  set_entry(HopState::kStale);
  EXPECT_EQ(look_up(), kFoundHop);
  EXPECT_EQ(tables_.used(), std::vector{kGateway});
}

TEST_F(LookUpTest, TheKernelAsksOnceForAHopThatItDoesNotKnow) {
  EXPECT_EQ(look_up().reach, Reach::kAsked);
  EXPECT_EQ(look_up().reach, Reach::kAsked);
  EXPECT_EQ(tables_.used(), std::vector{kGateway});
}

TEST_F(LookUpTest, AHopThatDoesNotAnswerIsUnreachableAndAskedAgain) {
  set_entry(HopState::kFailed);
  EXPECT_EQ(look_up().reach, Reach::kUnreachable);
  EXPECT_EQ(tables_.used(), std::vector{kGateway});
}

// use() would make a permanent entry an empty one.
TEST_F(LookUpTest, AnEntryThatMayBePermanentIsNotUsed) {
  set_entry(HopState::kNotRead);
  EXPECT_EQ(look_up().reach, Reach::kAsked);
  set_entry(HopState::kUnusable);
  EXPECT_EQ(look_up().reach, Reach::kUnreachable);
  EXPECT_TRUE(tables_.used().empty());
}

TEST_F(LookUpTest, WithoutARouteNothingIsAsked) {
  tables_.set_route(kTarget, {.is_answered = true});
  EXPECT_EQ(look_up().reach, Reach::kNoRoute);
  tables_.set_route(kTarget, {.is_answered = false});
  EXPECT_EQ(look_up().reach, Reach::kAsked);
  EXPECT_TRUE(tables_.used().empty());
}

class KernelNextHopsTest : public ::testing::Test {
 protected:
  // Asks until the answer is this one.
  bool comes_to(const Resolution& wanted) {
    const Nanos end = monotonic_now() + 10 * kSecond;
    while (monotonic_now() < end) {
      if (hops_.resolve(kTarget, monotonic_now()) == wanted) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  FakeKernelTables* const tables_ = new FakeKernelTables();
  KernelNextHops hops_{std::unique_ptr<KernelTables>(tables_),
                       {.retry = kMillisecond, .renewal = 5 * kMillisecond}};
};

TEST_F(KernelNextHopsTest, FollowsTheKernelsTables) {
  EXPECT_EQ(hops_.responder(), nullptr);
  EXPECT_TRUE(comes_to({.reach = Reach::kNoRoute}));
  tables_->set_route(kTarget, {.is_answered = true, .hop = kGateway});
  EXPECT_TRUE(comes_to({.reach = Reach::kAsked}));
  tables_->set_entry(kGateway, {.state = HopState::kKnown, .mac = kHopMac});
  EXPECT_TRUE(comes_to(kFoundHop));
  tables_->set_entry(kGateway, {.state = HopState::kKnown, .mac = {2, 0, 0, 0, 0, 8}});
  EXPECT_TRUE(comes_to({.reach = Reach::kKnown, .mac = {2, 0, 0, 0, 0, 8}}));
  tables_->set_entry(kGateway, {.state = HopState::kFailed});
  EXPECT_TRUE(comes_to({.reach = Reach::kUnreachable}));
}

TEST_F(KernelNextHopsTest, AsksNothingBeforeAnAddressIsWanted) {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(tables_->questions(), 0);
}

}  // namespace
}  // namespace tally::transport::roce
