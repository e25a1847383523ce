// Nodes that do not ask for news any more, as the coordinator sees it: their process is stopped, or
// they are cut off.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/control/repairing_fixture.h"
#include "tests/support/control/set_plans.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SilentNodesTest : public RepairingTest {
 protected:
  // The node has its answer and does not ask again; the others do.
  void fall_silent(NodeId node) {
    coordinator_->expect(node, now_);
    now_ += kHeartbeatTimeout;
    act();
    EXPECT_THAT(silent_, IsEmpty());
    now_ += kSecondLook;
    act();
  }
};

TEST_F(SilentNodesTest, JobsThatCanBeRepairedLeaveASilentNode) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  fall_silent(b);
  EXPECT_THAT(silent_, ElementsAre("b"));
  EXPECT_EQ(progress().trouble, "node \"b\" is silent: it is stopped, or cut off");
  coordinator_->listen(a, now_);
  repair_with({a});
  EXPECT_EQ(last_.version, nullptr) << "of the last instruction";
  EXPECT_EQ(store_.jobs().at(epoch())->nodes.size(), 1U);
}

TEST_F(SilentNodesTest, ANodeThatAsksAgainGetsTreesAgain) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  fall_silent(b);
  coordinator_->listen(b, now_ + kHold);
  act();
  repair_with({a});
  wait(kCalm, {a, b});
  EXPECT_THAT(news(b).placements, SizeIs(1)) << "a change of the plan gives it a share";
}

TEST_F(SilentNodesTest, JobsThatCannotBeRepairedKeepASilentNodeUntilItHasLeft) {
  const NodeId a = join("a"), b = join("b");
  run_job({a, b});
  fall_silent(b);
  EXPECT_EQ(stage(), "running");
  coordinator_->listen(b, now_ + kHold);
  act();
  EXPECT_EQ(stage(), "running");
}

TEST_F(SilentNodesTest, JobsWithAPlanOfAFileLeaveASilentNodeToo) {
  const NodeId a = join("a"), b = join("b"), c = join("c");
  ASSERT_TRUE(coordinator_->set_plan("", stars(4), now_).ok());
  run_repairable_job({a, b, c});
  fall_silent(b);
  coordinator_->listen(a, now_);
  coordinator_->listen(c, now_);
  repair_with({a, c});
  for (const PlanNode& one : store_.jobs().at(epoch())->nodes) EXPECT_NE(one.node, b);
}

TEST_F(SilentNodesTest, ANodeThatJoinsAndNeverAsksIsSilent) {
  const NodeId a = join("a");
  fall_silent(a);
  EXPECT_THAT(silent_, ElementsAre("a"));
}

TEST_F(SilentNodesTest, ANextVersionWithASilentNodeIsCalledOff) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  const NodeId c = join("c");
  wait(kCalm, {a, b, c});
  const std::uint32_t old = epoch();
  for (const NodeId node : {a, b, c}) serve(node);
  ASSERT_THAT(instructions(), ElementsAre(Word::kPrepare));
  fall_silent(c);
  EXPECT_THAT(instructions(), ElementsAre(Word::kCalledOff));
  EXPECT_EQ(epoch(), old);
  coordinator_->listen(c, now_ + kHold);
  act();
  wait(kCalm, {a, b, c});
  EXPECT_THAT(news(c).placements, SizeIs(1)) << "it begins again when the node asks again";
}

TEST_F(SilentNodesTest, ANodeThatLeavesWhileItIsSilentIsNotAMemberAnyMore) {
  const NodeId a = join("a"), b = join("b");
  run_repairable_job({a, b});
  fall_silent(b);
  coordinator_->leave(b, "its connection ended");
  repair_with({a});
  EXPECT_EQ(coordinator_->members().all().size(), 1U);
  const Nanos next = coordinator_->next_deadline();
  coordinator_->expect(b, now_);
  EXPECT_EQ(coordinator_->next_deadline(), next) << "nothing waits for it";
}

}  // namespace
}  // namespace tally::control
