// Plans from files that change while their jobs run: substitutes, and trees deeper than stars.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/plan/stars/star_planner.h"
#include "tests/support/control/changing_fixture.h"
#include "tests/support/control/test_plans.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two workers; a star at "a" and one at "b", or a tree of both with "c" above them.
MachinePlan plan_of(std::vector<plan::Tree> trees) {
  auto list = plan::equal_machines(2, 3, 1e9);
  const char* const names[] = {"w0", "w1", "a", "b", "c"};
  for (std::size_t i = 0; i < list.size(); ++i) list[i].name = names[i];
  MachinePlan made;
  made.file.network = plan::star_network(list);
  plan::Domain& domain = made.file.domains.emplace_back();
  domain.name = "all";
  domain.workers = {0, 1};
  domain.classes = {{{}, 65536, 0, std::move(trees)}};
  return made;
}

MachinePlan two_stars() {
  return plan_of({{49152, {2, 2, -1, -2, -2}, {}}, {16384, {3, 3, -2, -1, -2}, {}}});
}

MachinePlan two_levels() {
  return plan_of({{65536, {2, 3, 4, 4, -1}, {}}});
}

TEST_F(ChangingTest, ASubstituteHasTheTreesWhileANodeIsDrained) {
  const NodeId a = join("a"), b = join("b"), c = join("c");
  ASSERT_TRUE(coordinator_->set_plan("", two_stars(), now_).ok());
  run_job({a, b});
  const auto plan = coordinator_->jobs().current("train")->plan.classes.back().weights;
  begin_drain("b", {a, c});
  ASSERT_EQ(last_.version->nodes.size(), 2U);
  EXPECT_EQ(last_.version->nodes[1].member.name, "c");
  EXPECT_THAT(last_.version->nodes[1].trees, ElementsAre(2, 3));
  EXPECT_THAT(last_.version->nodes[1].stands_in_for, ElementsAre("b"));
  EXPECT_EQ(last_.version->plan.classes.back().weights, plan);
  go_over();
  EXPECT_EQ(coordinator_->jobs().load_of(b).jobs, 0U);
  EXPECT_THAT(coordinator_->jobs().load_of(c).stands_in_for, ElementsAre("b"));
  for (const NodeId node : {a, b, c}) news(node);
  ASSERT_TRUE(coordinator_->drain("b", true, now_).ok());
  for (const NodeId node : {a, b}) serve(node);
  ASSERT_THAT(instructions(), ElementsAre(Word::kPrepare)) << "it has them back";
  EXPECT_EQ(last_.version->nodes[1].member.name, "b");
  go_over();
  EXPECT_THAT(coordinator_->jobs().load_of(c).stands_in_for, IsEmpty());
}

TEST_F(ChangingTest, TreesOfTwoLevelsChangeAfterAllTheirNodesHaveThem) {
  const NodeId a = join("a"), b = join("b"), c = join("c"), d = join("d");
  ASSERT_TRUE(coordinator_->set_plan("", two_levels(), now_).ok());
  run_job({a, b, c});
  ASSERT_TRUE(coordinator_->drain("b", false, now_).ok());
  const auto at_d = news(d);
  ASSERT_EQ(at_d.placements.size(), 1U);
  const JobAssignment& substitute = at_d.placements[0];
  EXPECT_EQ(substitute.follows, first_);
  EXPECT_THAT(substitute.vertices.at(0).ranks, ElementsAre(1));
  EXPECT_EQ(substitute.above.at(substitute.vertices[0].parent).name, "c");
  EXPECT_THAT(news(b).placements, IsEmpty());
  // It has its parent connections; its parent node has not reported yet.
  coordinator_->report(d, {substitute.id, false, ""});
  serve(a);
  EXPECT_THAT(instructions(), IsEmpty());
  EXPECT_THAT(waiting("b"), HasSubstr("waits for \"c\" to take its new trees"));
  const auto at_c = news(c);
  ASSERT_EQ(at_c.placements.size(), 1U);
  EXPECT_THAT(at_c.placements[0].below, ElementsAre(RemoteShard{"a", "tcp:a:7733", "", 0, 1},
                                                    RemoteShard{"d", "tcp:d:7733", "", 0, 3},
                                                    RemoteShard{"a", "tcp:a:7733", "", 1, 1},
                                                    RemoteShard{"d", "tcp:d:7733", "", 1, 3}));
  coordinator_->report(c, {at_c.placements[0].id, false, ""});
  ASSERT_THAT(instructions(), ElementsAre(Word::kPrepare));
  go_over();
  for (const NodeId node : {a, b, c, d}) news(node);
  // To stars, and back.
  ASSERT_TRUE(coordinator_->set_plan("", two_stars(), now_).ok());
  coordinator_->replan("");
  for (const NodeId node : {a, c, d}) serve(node);
  ASSERT_THAT(instructions(), ElementsAre(Word::kPrepare));
  go_over();
  for (const NodeId node : {a, c, d}) news(node);
  ASSERT_TRUE(coordinator_->set_plan("", two_levels(), now_).ok());
  coordinator_->replan("");
  for (const NodeId node : {a, c, d}) serve(node);
  EXPECT_THAT(instructions(), ElementsAre(Word::kPrepare));
}

TEST_F(ChangingTest, OtherBuffersBetweenNodesNeedAnotherVersion) {
  const NodeId a = join("a"), b = join("b"), c = join("c");
  MachinePlan plan = two_levels();
  ASSERT_TRUE(coordinator_->set_plan("", plan, now_).ok());
  run_job({a, b, c});
  plan.file.domains[0].classes[0].window = 16;
  ASSERT_TRUE(coordinator_->set_plan("", plan, now_).ok());
  coordinator_->replan("");
  const auto at_a = news(a);
  ASSERT_EQ(at_a.placements.size(), 1U);
  EXPECT_EQ(at_a.placements[0].buffers, (protocol::BufferLayout{64 << 10, 16, 16, 1}));
}

TEST_F(ChangingTest, LossesInTheOldVersionDoNotEndTheNewOne) {
  const NodeId a = join("a"), b = join("b"), c = join("c"), d = join("d");
  ASSERT_TRUE(coordinator_->set_plan("", two_levels(), now_).ok());
  run_job({a, b, c});
  const std::vector<PlanNode> before = coordinator_->jobs().current("train")->nodes;
  begin_drain("b", {a, c, d});
  for (const Report report : {Report::kReady, Report::kKnows}) {
    both_report(report);
    instructions();
  }
  ASSERT_EQ(epoch(), next_);
  // At "c" the parent connection of "a" has broken; "b" is stopped before it has been let go of.
  for (const PlanNode& node : before) {
    if (node.node == c) coordinator_->report(c, {node.placement, true, ""});
  }
  coordinator_->leave(b, "somebody could not wait");
  EXPECT_EQ(epoch(), next_);
  for (const Report report : {Report::kMoved, Report::kLeft}) {
    both_report(report);
    instructions();
  }
  EXPECT_EQ(epoch(), next_);
  for (const NodeId node : {a, c, d}) EXPECT_EQ(coordinator_->jobs().load_of(node).jobs, 1U);
  EXPECT_EQ(news(a).withdraw.size(), 1U) << "of the version before";
}

TEST_F(ChangingTest, ANodeThatCannotReachItsParentCallsTheChangeOff) {
  const NodeId a = join("a"), b = join("b"), c = join("c"), d = join("d");
  ASSERT_TRUE(coordinator_->set_plan("", two_levels(), now_).ok());
  run_job({a, b, c});
  ASSERT_TRUE(coordinator_->drain("b", false, now_).ok());
  serve(a);
  serve(c);
  const auto at_d = news(d);
  coordinator_->report(d, {at_d.placements.at(0).id, false, "the node above it, \"c\": no answer"});
  EXPECT_THAT(instructions(), IsEmpty());
  EXPECT_THAT(waiting("b"), HasSubstr("node \"d\": the node above it, \"c\": no answer"));
  EXPECT_EQ(epoch(), first_);
  EXPECT_EQ(news(c).withdraw.size(), 1U) << "of the new version alone";
}

TEST_F(ChangingTest, WithoutASubstituteThePlanStays) {
  const NodeId a = join("a"), b = join("b"), c = join("c");
  ASSERT_TRUE(coordinator_->set_plan("", two_levels(), now_).ok());
  run_job({a, b, c});
  ASSERT_TRUE(coordinator_->drain("b", false, now_).ok());
  EXPECT_THAT(news(a).placements, IsEmpty());
  EXPECT_THAT(
      waiting("b"),
      HasSubstr("\"b\" is drained or has left, and no node can stand in for it in a tree of "
                "the plan; \"a\" sums in it already; \"c\" sums in it already"));
  EXPECT_THAT(waiting("b"), HasSubstr("it keeps the plan that it has"));
}

}  // namespace
}  // namespace tally::control
