#include "control/coordinator/state/members/news_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/control/usual_timeouts.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Nanos kJoined = 100 * kSecond;

JobAssignment assignment(std::uint64_t id) {
  JobAssignment made;
  made.id = id;
  return made;
}

TEST(NewsQueueTest, NewsWaitUntilTheNodeListens) {
  NewsQueue queue;
  queue.add(1, kJoined);
  queue.assign(1, assignment(7));
  EXPECT_THAT(queue.take(kJoined), IsEmpty());
  queue.listen(1, kJoined + kSecond);
  const auto news = queue.take(kJoined);
  ASSERT_THAT(news, SizeIs(1));
  EXPECT_EQ(news[0].node, 1U);
  ASSERT_THAT(news[0].placements, SizeIs(1));
  EXPECT_EQ(news[0].placements[0].id, 7U);
  queue.listen(1, kJoined + kSecond);
  EXPECT_THAT(queue.take(kJoined), IsEmpty()) << "each is taken once";
}

TEST(NewsQueueTest, AWaitWithoutNewsEndsWithEmptyNews) {
  NewsQueue queue;
  queue.add(1, kJoined);
  queue.listen(1, kJoined + kSecond);
  EXPECT_EQ(queue.next_deadline(), kJoined + kSecond);
  EXPECT_THAT(queue.take(kJoined + kSecond - 1), IsEmpty());
  EXPECT_THAT(queue.take(kJoined + kSecond), SizeIs(1));
}

TEST(NewsQueueTest, WaitsThatEndSoonEndTogether) {
  NewsQueue queue;
  for (const NodeId node : {1, 2, 3}) queue.add(node, kJoined);
  queue.listen(1, kJoined + kSecond);
  queue.listen(2, kJoined + kSecond + kTogether);
  queue.listen(3, kJoined + kSecond + kTogether + 1);
  EXPECT_THAT(queue.take(kJoined + kSecond - 1), IsEmpty());
  EXPECT_THAT(queue.take(kJoined + kSecond), SizeIs(2));
}

TEST(NewsQueueTest, OnlyAKnownAssignmentIsWithdrawnByNews) {
  NewsQueue queue;
  queue.add(1, kJoined);
  queue.assign(1, assignment(7));
  EXPECT_FALSE(queue.withdraw(1, 7)) << "the node has not been sent it";
  queue.assign(1, assignment(8));
  queue.listen(1, kJoined + kSecond);
  EXPECT_THAT(queue.take(kJoined), SizeIs(1));
  EXPECT_TRUE(queue.withdraw(1, 8));
  queue.listen(1, kJoined + kSecond);
  const auto news = queue.take(kJoined);
  ASSERT_THAT(news, SizeIs(1));
  EXPECT_THAT(news[0].placements, IsEmpty());
  EXPECT_THAT(news[0].withdraw, ElementsAre(8));
}

TEST(NewsQueueTest, ANodeThatDoesNotAskAgainIsSilent) {
  NewsQueue queue;
  queue.add(1, kJoined);
  queue.add(2, kJoined);
  queue.listen(2, kJoined + kMostSilence);
  EXPECT_THAT(queue.silent(kJoined + kMostSilence - 1), IsEmpty());
  EXPECT_THAT(queue.silent(kJoined + kMostSilence), ElementsAre(1)) << "node 2 listens";
  queue.erase(1);
  queue.take(kJoined + kMostSilence);
  EXPECT_EQ(queue.next_deadline(), kJoined + 2 * kMostSilence);
  EXPECT_THAT(queue.silent(kJoined + 2 * kMostSilence), ElementsAre(2));
  queue.erase(2);
  queue.listen(2, kJoined);
  EXPECT_EQ(queue.next_deadline(), kForever);
}

}  // namespace
}  // namespace tally::control
