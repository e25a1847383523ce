// The state of a job, its registry and its inspector.
#include "dataplane/protocol/job/job.h"

#include "tests/support/protocol/units_fixture.h"

namespace tally::protocol {
namespace {

using JobTest = UnitsTest;

TEST_F(JobTest, AChildNodeIsNotToBlameAndItsFirstRankStandsForIt) {
  const Job& job = make(false);
  EXPECT_EQ(job.blamed(1), 1);
  EXPECT_EQ(job.blamed(child_node(job)), wire::kNoRank);
  EXPECT_EQ(job.stand_in(0, 1), 1);
  EXPECT_EQ(job.stand_in(0, child_node(job)), 2);
  EXPECT_TRUE(job.is_child(0, 1));
  EXPECT_TRUE(job.is_child(0, child_node(job)));
  EXPECT_FALSE(job.is_child(0, 2)) << "below the child node";
  EXPECT_FALSE(job.is_child(0, 4)) << "elsewhere in the tree";
}

TEST_F(JobTest, TheLossOfAChildNodeNamesItsNumber) {
  Job& job = make(false);
  job.spec.child_node_numbers = {12};
  const Verdict of_node = job.loss_of(child_node(job), Status::kPeerLost);
  EXPECT_EQ(of_node.culprit, wire::kNoRank);
  EXPECT_EQ(of_node.culprit_value, 12u);
  EXPECT_EQ(job.loss_of(1, Status::kPeerLeft).culprit, 1);
}

TEST_F(JobTest, AParentDecidesUntilItIsGone) {
  Job& job = make(false);
  EXPECT_TRUE(job.leads_up(0));
  job.parents[0].gone = true;
  EXPECT_FALSE(job.leads_up(0));
}

TEST(JobFootprint, GrowsWithCreditAndBuffers) {
  JobSpec spec{.ranks = 8, .credit = 16};
  const std::uint64_t star = Job::footprint(spec);
  spec.credit = 32;
  EXPECT_GT(Job::footprint(spec), star);
  spec.parents = 1;
  spec.buffers = BufferLayout{.bytes = 4096, .up = 2, .down = 2, .classes = 1};
  const std::uint64_t narrow = Job::footprint(spec);
  spec.buffers.up = 64;
  EXPECT_GT(Job::footprint(spec), narrow);
}

TEST_F(JobTest, TheRegistryFindsTheChildOfASessionUntilItEnds) {
  const Job& job = make(true);
  EXPECT_EQ(jobs_.child(kChildNode).job, &job);
  EXPECT_EQ(jobs_.child(kChildNode).number, child_node(job));
  EXPECT_EQ(jobs_.child(5).job, nullptr) << "a session that did not join";
  EXPECT_EQ(jobs_.child(1000).job, nullptr);
  jobs_.leave(kChildNode);
  EXPECT_EQ(jobs_.child(kChildNode).job, nullptr);
  EXPECT_EQ(jobs_.number_of(kChildNode), child_node(job)) << "a failure still names it";
  EXPECT_EQ(jobs_.number_of(kNoSession), std::nullopt);
}

TEST_F(JobTest, ARemovedJobHasNoSessions) {
  make(false);
  EXPECT_NE(jobs_.parent(kParent).job, nullptr);
  jobs_.remove(0);
  EXPECT_EQ(jobs_.find(0), nullptr);
  EXPECT_EQ(jobs_.child(0).job, nullptr);
  EXPECT_EQ(jobs_.parent(kParent).job, nullptr);
}

TEST_F(JobTest, TheInspectorListsMissingRanksBelowChildNodesApart) {
  Job& job = make(true);
  add(job, 17, {1});
  add_ready(job, 18);
  const auto waiting = inspector_.waiting(0);
  ASSERT_EQ(waiting.size(), 1u) << "the other operation waits for no child";
  EXPECT_EQ(waiting[0].tag, 17u);
  EXPECT_EQ(waiting[0].missing, (std::vector<std::uint16_t>{0}));
  EXPECT_EQ(waiting[0].missing_below, (std::vector<std::uint16_t>{2, 3}));
}

TEST_F(JobTest, TheInspectorListsTheOldestOutstandingOperations) {
  Job& job = make(true);
  job.table[add(job, 17, {1})].first_notice = 20;
  job.table[add_ready(job, 18)].first_notice = 10;
  job.table[add(job, 19, {})].first_notice = 30;
  const auto outstanding = inspector_.outstanding(0, 2);
  ASSERT_EQ(outstanding.size(), 2u);
  EXPECT_EQ(outstanding[0].key.tag, 18u);
  EXPECT_TRUE(outstanding[0].missing.empty());
  EXPECT_EQ(outstanding[1].key.tag, 17u);
  EXPECT_EQ(outstanding[1].missing, (std::vector<std::uint16_t>{0}));
  EXPECT_EQ(outstanding[1].missing_below, (std::vector<std::uint16_t>{2, 3}));
}

TEST_F(JobTest, ALostRankKeepsItsLatestAnnouncement) {
  Job& job = make(true);
  job.members[1].has_last = true;
  job.members[1].last_tag = 17;
  losses_.gone(job, 1, Status::kPeerLost, 5);
  const auto ranks = inspector_.rank_states(0);
  ASSERT_EQ(ranks.size(), 4u);
  EXPECT_TRUE(ranks[0].has_joined);
  EXPECT_FALSE(ranks[1].has_joined);
  EXPECT_TRUE(ranks[1].is_gone);
  EXPECT_TRUE(ranks[1].has_last);
  EXPECT_EQ(ranks[1].last_tag, 17u);
}

TEST_F(JobTest, BuffersOfLostNodesDoNotCount) {
  Job& job = make(false);
  EXPECT_TRUE(inspector_.buffers_free(0));
  job.parents[0].up[1].used = true;
  EXPECT_FALSE(inspector_.buffers_free(0));
  job.parents[0].gone = true;
  EXPECT_TRUE(inspector_.buffers_free(0));
  job.child_nodes[0].free_down[0].pop_back();
  EXPECT_FALSE(inspector_.buffers_free(0));
  job.members[child_node(job)].gone = true;
  EXPECT_TRUE(inspector_.buffers_free(0));
}

}  // namespace
}  // namespace tally::protocol
