// Jobs of members that have lost a NIC, and are drained or leave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/control/changing_fixture.h"
#include "tests/support/control/set_plans.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class LostRailsTest : public ChangingTest {
 protected:
  static std::string address(const char* name, int rail) {
    return std::string("tcp:") + name + "-" + std::to_string(rail) + ":7733";
  }
  // Two rails of a shard each.
  NodeId join(const char* name, Role role) {
    Member joining = member(name, 2, 0, role);
    for (const int rail : {0, 1}) {
      joining.rails.push_back(
          {.address = name, .tcp = address(name, rail), .speed = 100, .shards = 1});
    }
    const auto node = coordinator_->join(joining, 0, now_);
    EXPECT_TRUE(node.ok());
    coordinator_->listen(*node, now_ + kHold);
    return *node;
  }
  void lose(NodeId node, std::size_t rail) {
    auto rails = store_.members().at(node).rails;
    rails.at(rail).up = false;
    coordinator_->set_rails(node, std::move(rails), now_);
  }
  // What the node is to serve of a job that forms.
  JobAssignment placed(NodeId node, const char* job) {
    for (const std::uint32_t rank : {0, 1}) {
      coordinator_->open(++last_ticket_, opening(rank, job), now_);
    }
    const auto placements = news(node).placements;
    EXPECT_THAT(placements, SizeIs(1));
    return placements.empty() ? JobAssignment{} : placements[0];
  }

  Coordinator::Ticket last_ticket_ = 10;
};

// Its ranks are where they were: drain moves trees.
TEST_F(LostRailsTest, ADrainedWorkersNodeStillCounts) {
  const NodeId w0 = join("w0", Role::kWorker), w1 = join("w1", Role::kWorker);
  lose(w0, 0);
  run_job({w0, w1});
  ASSERT_TRUE(coordinator_->drain("w0", false, now_).ok());
  const auto placements = news(w1).placements;
  ASSERT_THAT(placements, SizeIs(1));
  EXPECT_THAT(placements[0].rails, ElementsAre(1));
  EXPECT_EQ(coordinator_->in_force("train")->machines.file.network.vertices.at(0).in, 100);
  EXPECT_THAT(placed(w1, "next").rails, ElementsAre(1));
}

TEST_F(LostRailsTest, AWorkersNodeThatHasLeftDoesNotCount) {
  const NodeId a = join("a", Role::kHelper), w0 = join("w0", Role::kWorker);
  join("b", Role::kHelper);
  ASSERT_TRUE(coordinator_->set_plan("", stars(), now_).ok());
  lose(w0, 0);
  EXPECT_THAT(placed(a, "before").rails, ElementsAre(1));
  coordinator_->leave(w0, "switched off");
  ASSERT_THAT(store_.departed(), SizeIs(1)) << "the plan names it";
  EXPECT_THAT(placed(a, "after").rails, ElementsAre(0, 1));
}

TEST_F(LostRailsTest, NodesReachEachOtherByRailsThatNoWorkerHasLost) {
  const NodeId a = join("a", Role::kWorker);
  join("b", Role::kHelper);
  ASSERT_TRUE(coordinator_->set_plan("", deep(), now_).ok());
  EXPECT_EQ(placed(a, "before").above.at(0).tcp, address("b", 0));
  lose(a, 0);
  EXPECT_EQ(placed(a, "after").above.at(0).tcp, address("b", 1));
}

}  // namespace
}  // namespace tally::control
