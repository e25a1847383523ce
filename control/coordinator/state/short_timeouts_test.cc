// A coordinator whose user has set how long a fault may last: all its time-outs follow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/control/repairing_fixture.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ShortTimeoutsTest : public RepairingTest {
 protected:
  ShortTimeoutsTest() { use({.fault = 10 * kSecond}); }
  void use(const FaultTimeouts& timeouts) {
    options_.timeouts = timeouts;
    coordinator_.emplace(options_, store_, now_);
  }
};

TEST_F(ShortTimeoutsTest, ANodeThatIsSilentLeavesAfterHalfOfTheTime) {
  const NodeId a = join("a"), b = join("b");
  now_ += kHold;
  act();  // both have their answers, and must ask again
  coordinator_->listen(a, now_ + kHold);
  EXPECT_EQ(coordinator_->next_deadline(), now_ + 5 * kSecond);
  now_ += 5 * kSecond - 1;
  act();
  EXPECT_THAT(lost_, IsEmpty());
  now_ += 1;
  act();
  EXPECT_THAT(lost_, ElementsAre(b));
}

TEST_F(ShortTimeoutsTest, ARepairIsGivenUpAfterTheTime) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  coordinator_->leave(b, "its cable was cut");
  act();
  serve(a);
  ASSERT_THAT(instructions(), ElementsAre(Word::kPrepare));
  wait(10 * kSecond - 1, {a});
  EXPECT_EQ(stage(), "repairing");
  wait(1, {a});
  EXPECT_THAT(ended(0), HasSubstr("not repaired within 10 s"));
}

TEST_F(ShortTimeoutsTest, AChangeOfThePlanIsCalledOffAfterHalfOfTheTime) {
  const NodeId a = join("a"), b = join("b");
  run_job({a, b});
  const NodeId c = join("c");
  wait(kCalm, {a, b, c});
  for (const NodeId node : {a, b, c}) serve(node);
  ASSERT_THAT(instructions(), ElementsAre(Word::kPrepare));
  wait(5 * kSecond - 1, {a, b, c});
  EXPECT_THAT(instructions(), IsEmpty());
  wait(1, {a, b, c});
  EXPECT_THAT(instructions(), ElementsAre(Word::kCalledOff));
  EXPECT_THAT(last_.why, HasSubstr("within 5 s"));
}

TEST_F(ShortTimeoutsTest, NodesHaveLessTimeToTakeAJob) {
  const NodeId a = join("a");
  coordinator_->open(1, opening(0), now_);
  coordinator_->open(2, opening(1), now_);
  EXPECT_FALSE(news(a).placements.empty());
  now_ += 4 * kSecond - 1;
  EXPECT_TRUE(waits(1));
  now_ += 1;
  EXPECT_THAT(error(1), HasSubstr("have not taken it within 4 s: \"a\""));
}

TEST_F(ShortTimeoutsTest, ASilentNodeIsFoundEarlier) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  coordinator_->expect(b, now_);
  now_ += options_.timeouts.heartbeat();
  act();
  now_ += options_.timeouts.second_look();
  act();
  EXPECT_THAT(silent_, ElementsAre("b"));
  EXPECT_LT(now_, kNow + kHeartbeatTimeout + kSecondLook);
}

TEST_F(ShortTimeoutsTest, ALongTimeKeepsASilentNodeForLonger) {
  use({.fault = 600 * kSecond});
  const NodeId a = join("a");
  now_ += kHold;
  act();
  now_ += 300 * kSecond - 1;
  act();
  EXPECT_THAT(lost_, IsEmpty());
  now_ += 1;
  act();
  EXPECT_THAT(lost_, ElementsAre(a));
}

}  // namespace
}  // namespace tally::control
