#include "dataplane/protocol/operations/stages.h"

#include <gtest/gtest.h>

namespace tally::protocol {
namespace {

TEST(StageTimes, NoticesGiveWhoWasLastAndByHowMuch) {
  StageTimes times;
  times.notice(4, 100, 100);
  times.notice(0, 100, 130);
  times.notice(7, 100, 175);
  EXPECT_EQ(times.last_rank, 7);
  EXPECT_EQ(times.last_notice, 175);
  EXPECT_EQ(times.previous_notice, 130);
  EXPECT_EQ(times.notice_delays, 30 + 75);
}

TEST(StageTimes, OneTilePassesAllStages) {
  StageTimes times;
  times.pull(true, 100, 0);
  times.sum(110, 0);
  EXPECT_EQ(times.push(150), 40);
  times.placed(155, 40);
  EXPECT_EQ(times.started, 100);
  EXPECT_EQ(times.pulled, 110);
  EXPECT_EQ(times.summed, 150);
  EXPECT_EQ(times.pulling, 10);
  EXPECT_EQ(times.summing, 40);
  EXPECT_EQ(times.pushing, 5);
}

// Two tiles: the second's inputs come while the first is summed, and the first is placed while the
// second is summed. What is hidden behind a sum is nobody's time.
TEST(StageTimes, OnlyExposedTransfersCount) {
  StageTimes times;
  times.pull(true, 0, 0);
  times.pull(false, 2, 0);
  times.sum(10, 0);      // 10 of pulling
  times.push(30);        // 20 of summing
  times.sum(31, 20);     // the other was still to come: 1 of pulling
  times.push(51);        // 20 of summing
  times.placed(52, 40);  // 1 of pushing
  times.placed(60, 40);  // 8 of pushing
  EXPECT_EQ(times.pulling, 11);
  EXPECT_EQ(times.summing, 40);
  EXPECT_EQ(times.pushing, 9);
  EXPECT_EQ(times.pulling + times.summing + times.pushing, 60);
}

TEST(StageTimes, SumsOfOthersAreNotThisOnesTransfer) {
  StageTimes times;
  times.pull(true, 0, 1000);
  times.sum(50, 1040);  // in between the shard summed for others for 40
  times.push(60);
  times.placed(90, 1080);  // and here for 30
  EXPECT_EQ(times.pulling, 10);
  EXPECT_EQ(times.summing, 10);
  EXPECT_EQ(times.pushing, 0);
}

TEST(StageTimes, BetweenItsTilesItQueues) {
  StageTimes times;
  times.pull(true, 0, 0);
  times.sum(1, 0);
  times.push(2);
  times.placed(3, 1);
  times.pull(false, 100, 1);  // no tile could start before
  times.sum(101, 1);
  times.push(102);
  times.placed(103, 2);
  EXPECT_EQ(times.started, 0);
  EXPECT_EQ(times.pulling + times.summing + times.pushing, 6);
}

}  // namespace
}  // namespace tally::protocol
