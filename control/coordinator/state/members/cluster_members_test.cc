#include "control/coordinator/state/members/cluster_members.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/control/coordinator_fixture.h"
#include "tests/support/control/set_plans.h"

namespace tally::control {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ClusterMembersTest : public ::testing::Test {
 protected:
  NodeId join(const char* name) {
    const auto node = members_.join(member(name), 0);
    EXPECT_TRUE(node.ok());
    return *node;
  }

  MemoryStore store_;
  Plans plans_{store_};
  DepartedMembers departed_{store_, plans_};
  ClusterMembers members_{store_, departed_};
};

TEST_F(ClusterMembersTest, RefusesASecondNodeOfAName) {
  const NodeId a = join("a");
  EXPECT_THAT(members_.join(member("a"), 0).error().message,
              HasSubstr("\"a\" is a member already, at tcp:a:7733"));
  EXPECT_TRUE(members_.has(a).ok());
  EXPECT_FALSE(members_.has(a + 1).ok());
  EXPECT_EQ(*members_.find("a"), a);
  EXPECT_FALSE(members_.find("b").ok());
}

TEST_F(ClusterMembersTest, NewEpochsAreLargerThanThoseOfANodeThatJoins) {
  ASSERT_TRUE(members_.join(member("a"), 41).ok());
  EXPECT_EQ(store_.next_epoch(), 42U);
}

TEST_F(ClusterMembersTest, MeasuredSpeedsHoldForAMemberThatJoinsAgain) {
  const NodeId a = join("a");
  EXPECT_THAT(members_.set_speeds({{"a", {1, 2}}, {"b", {3, 4}}}).error().message,
              HasSubstr("no member \"b\""));
  EXPECT_EQ(members_.all().at(a).measured.speed, 0U) << "nothing has changed";
  ASSERT_TRUE(members_.set_speeds({{"a", {300, 200}}}).ok());
  EXPECT_EQ(members_.all().at(a).measured.speed, 300U);
  EXPECT_EQ(members_.leave(a), "a");
  EXPECT_EQ(members_.leave(a), std::nullopt);
  EXPECT_EQ(members_.all().at(join("a")).measured.sum, 200U);
}

TEST_F(ClusterMembersTest, ADrainedMemberIsNotUsable) {
  const NodeId a = join("a");
  join("b");
  EXPECT_THAT(members_.drain("c", false).error().message, HasSubstr("no member \"c\""));
  EXPECT_TRUE(*members_.drain("a", false));
  EXPECT_FALSE(*members_.drain("a", false)) << "it is drained already";
  EXPECT_THAT(members_.usable(), SizeIs(1));
  EXPECT_THAT(members_.drain("b", false).error().message, HasSubstr("the last node"));
  EXPECT_TRUE(*members_.drain("a", true));
  EXPECT_TRUE(members_.usable().contains(a));
}

TEST_F(ClusterMembersTest, ReportsWhetherNicsChange) {
  const NodeId a = join("a");
  const std::vector<Rail> rails = {{.address = "10.0.0.1", .speed = 100, .shards = 1}};
  EXPECT_TRUE(members_.set_rails(a, rails));
  EXPECT_FALSE(members_.set_rails(a, rails));
  EXPECT_FALSE(members_.set_rails(a + 1, {}));
}

TEST_F(ClusterMembersTest, ADepartedMemberIsKeptWhileAPlanNamesIt) {
  const NodeId a = join("a"), b = join("b"), c = join("c");
  ASSERT_TRUE(plans_.set("", stars()).ok());
  members_.leave(b);
  members_.leave(c);
  ASSERT_THAT(store_.departed(), SizeIs(1)) << "no plan names \"c\"";
  const Members known = departed_.with_present();
  EXPECT_FALSE(known.at(a).draining);
  EXPECT_TRUE(known.at(b).draining);
  EXPECT_FALSE(departed_.is_drained("b"));
  departed_.forget_unneeded();
  EXPECT_THAT(store_.departed(), SizeIs(1));
  plans_.drop("");
  departed_.forget_unneeded();
  EXPECT_THAT(store_.departed(), IsEmpty());
}

TEST_F(ClusterMembersTest, ATakeoverKeepsDrainsAndNoMembers) {
  join("a");
  join("b");
  ASSERT_TRUE(members_.drain("b", false).ok());
  DepartedMembers departed(store_, plans_);
  EXPECT_THAT(members_.all(), IsEmpty());
  EXPECT_TRUE(departed.is_drained("b"));
  EXPECT_FALSE(departed.is_drained("a"));
  EXPECT_TRUE(members_.all().at(join("b")).draining);
  EXPECT_THAT(store_.departed(), IsEmpty()) << "it is a member again";
}

}  // namespace
}  // namespace tally::control
