#include "control/coordinator/state/jobs/job_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/control/placed_jobs.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class JobTableTest : public ::testing::Test {
 protected:
  JobState& add(std::uint32_t epoch, const std::vector<NodeId>& nodes, JobStage stage,
                const char* name = "train") {
    JobState& state = jobs_.add(job_record(epoch, nodes, name));
    state.stage = stage;
    state.nodes.insert(nodes.begin(), nodes.end());
    return state;
  }
  // Version 1 changes to version 2; tickets 11 and 12 are ranks of version 1.
  void begin_change() {
    JobState& from = add(1, {1}, JobStage::kRunning);
    JobRecord next = job_record(2, {2});
    next.follows = 1;
    jobs_.add(next).stage = JobStage::kNext;
    from.next = 2;
    from.change.emplace(2, 0);
    jobs_.take_place(11, 1, 0, "");
    jobs_.take_place(12, 1, 1, "");
  }

  MemoryStore store_;
  JobTable jobs_{store_};
};

TEST_F(JobTableTest, ANameStandsForTheVersionThatFormsOrRuns) {
  EXPECT_EQ(jobs_.current("train"), nullptr);
  add(1, {}, JobStage::kOver);
  add(2, {}, JobStage::kLeaving);
  add(3, {}, JobStage::kRunning);
  add(4, {}, JobStage::kNext);
  add(5, {}, JobStage::kGathering, "other");
  EXPECT_EQ(jobs_.current("train")->epoch, 3U);
  EXPECT_EQ(jobs_.current("other")->epoch, 5U);
  EXPECT_EQ(jobs_.alive(), 2U);
}

TEST_F(JobTableTest, TheLoadOfANodeIsOfJobsThatAreNotOver) {
  add(1, {1, 2}, JobStage::kOver);
  add(2, {1, 2}, JobStage::kRunning, "other");
  JobState& placing = jobs_.add(job_record(3, {2}, "third"));
  placing.stage = JobStage::kPlacing;
  const NodeLoad load = jobs_.load_of(2);
  EXPECT_EQ(load.jobs, 1U) << "the node does not have the third job";
  EXPECT_EQ(load.trees, 2U) << "but is in its plan";
  EXPECT_THAT(load.stands_in_for, IsEmpty());
}

TEST_F(JobTableTest, FindsThePlacementWhileTheNodeHasIt) {
  JobState& state = add(1, {1, 2}, JobStage::kRunning);
  EXPECT_EQ(jobs_.placed_at(2, 12), 1U);
  EXPECT_EQ(jobs_.placed_at(1, 12), std::nullopt);
  state.nodes.erase(2);
  EXPECT_EQ(jobs_.placed_at(2, 12), std::nullopt);
}

TEST_F(JobTableTest, ARankHasItsPlaceUntilItsTicketIsErased) {
  JobState& state = add(1, {}, JobStage::kGathering);
  jobs_.listen(11);
  jobs_.take_place(11, 1, 1, "host");
  EXPECT_THAT(state.missing_ranks(), ElementsAre(0));
  EXPECT_EQ(state.hosts[1], "host");
  EXPECT_EQ(state.rank_of(11), 1U);
  EXPECT_THAT(jobs_.ranks_not_listening(state), ElementsAre(0, 1)) << "it listened without a place";
  jobs_.listen(11);
  EXPECT_THAT(jobs_.ranks_not_listening(state), ElementsAre(0));
  EXPECT_EQ(jobs_.erase_ticket(11), 1U);
  EXPECT_FALSE(jobs_.has_place(11));
  EXPECT_EQ(jobs_.erase_ticket(11), std::nullopt);
}

TEST_F(JobTableTest, AnErasedVersionFreesThePlacesOfItsRanks) {
  add(1, {}, JobStage::kRunning);
  jobs_.take_place(11, 1, 1, "");
  jobs_.erase(1);
  EXPECT_FALSE(jobs_.has_place(11));
  EXPECT_EQ(jobs_.find(1), nullptr);
  EXPECT_THAT(store_.jobs(), IsEmpty());
}

TEST_F(JobTableTest, KnowsTheRanksOfAChange) {
  begin_change();
  const auto changing = jobs_.changing(12, 2);
  ASSERT_TRUE(changing.has_value());
  EXPECT_EQ(changing->from, 1U);
  EXPECT_EQ(changing->rank, 1U);
  EXPECT_FALSE(jobs_.changing(12, 1).has_value()) << "it changes to 2";
  EXPECT_FALSE(jobs_.changing(13, 2).has_value());
  EXPECT_FALSE(jobs_.changing(0, 2).has_value());
  jobs_.move_ranks(*jobs_.find(1));
  EXPECT_EQ(jobs_.find(2)->rank_of(12), 1U);
  EXPECT_EQ(jobs_.erase_ticket(12), 2U);
}

TEST_F(JobTableTest, AnEarlierCoordinatorsJobsAreErased) {
  add(1, {}, JobStage::kRunning);
  JobTable next(store_);
  EXPECT_THAT(store_.jobs(), IsEmpty());
  EXPECT_THAT(next.states(), IsEmpty());
}

TEST_F(JobTableTest, NamesNodesInTheOrderOfTheJob) {
  EXPECT_EQ(name_nodes(job_record(1, {1, 2, 3}), {3, 1}), "\"a\", \"c\"");
  EXPECT_EQ(name_nodes(job_record(1, {1}), {}), "");
}

}  // namespace
}  // namespace tally::control
