#include "control/coordinator/state/jobs/job_versions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>

#include "tests/support/control/placed_jobs.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class JobVersionsTest : public ::testing::Test {
 protected:
  JobVersionsTest() {
    for (const NodeId node : {1, 2}) {
      news_.add(node, kNow);
      news_.listen(node, kNow + kHold);
    }
  }
  // Places the job "train" of the tickets 11 and 12 at these nodes.
  void place(std::uint32_t epoch, const std::vector<NodeId>& nodes) {
    jobs_.add(job_record(epoch, {}));
    versions_.enter(11, epoch, 0, "");
    versions_.enter(12, epoch, 1, "");
    versions_.place(job_record(epoch, nodes), kNow);
  }
  void run(std::uint32_t epoch, const std::vector<NodeId>& nodes) {
    place(epoch, nodes);
    for (const NodeId node : nodes) versions_.confirm(epoch, node);
    versions_.take_answers();
    send();
  }
  void begin_next(std::uint32_t epoch, std::uint32_t follows, const std::vector<NodeId>& nodes) {
    JobRecord next = job_record(epoch, nodes);
    next.follows = follows;
    versions_.begin_next(next, kNow);
    send();
  }
  // Sends the news; returns the placements that they withdraw.
  std::vector<std::uint64_t> send() {
    std::vector<std::uint64_t> withdrawn;
    for (const NodeNews& one : news_.take(kNow)) {
      withdrawn.insert(withdrawn.end(), one.withdraw.begin(), one.withdraw.end());
      news_.listen(one.node, kNow + kHold);
    }
    return withdrawn;
  }
  void both_report(std::uint32_t epoch, std::initializer_list<Change::Report> reports) {
    for (const Change::Report report : reports) {
      for (const Ticket ticket : {11, 12}) versions_.report(ticket, epoch, {report});
    }
  }
  std::string error() {
    const auto answers = versions_.take_answers();
    return answers.empty() || answers[0].outcome ? "" : answers[0].outcome.error().message;
  }

  MemoryStore store_;
  JobTable jobs_{store_};
  NewsQueue news_;
  JobVersions versions_{jobs_, news_};
};

TEST_F(JobVersionsTest, RanksAreAnsweredWhenAllNodesHaveConfirmed) {
  place(1, {1, 2});
  versions_.confirm(1, 2);
  EXPECT_THAT(versions_.take_answers(), IsEmpty());
  versions_.confirm(1, 1);
  const auto answers = versions_.take_answers();
  ASSERT_THAT(answers, SizeIs(2));
  EXPECT_EQ(answers[1].ticket, 12U);
  EXPECT_EQ(answers[1].rank, 1U);
  EXPECT_EQ((*answers[1].outcome)->nodes.size(), 2U);
  EXPECT_EQ(jobs_.find(1)->stage, JobStage::kRunning);
}

TEST_F(JobVersionsTest, ANodeThatDropsAJobEndsItForAllNodes) {
  run(1, {1, 2});
  versions_.gone_from(1, 1, refused("dropped"));
  EXPECT_THAT(send(), ElementsAre(12));
  EXPECT_EQ(jobs_.find(1)->stage, JobStage::kOver);
  versions_.gone_from(1, 2, refused("dropped"));
  EXPECT_EQ(jobs_.find(1), nullptr);
  versions_.gone_from(1, 2, refused("dropped"));
}

TEST_F(JobVersionsTest, UnconfirmedNodesEndAJobAtTheDeadline) {
  place(1, {1, 2});
  versions_.confirm(1, 1);
  EXPECT_EQ(versions_.next_deadline(), kNow + kPlacingTimeout);
  versions_.end_late(kNow + kPlacingTimeout - 1);
  EXPECT_EQ(error(), "");
  versions_.end_late(kNow + kPlacingTimeout);
  EXPECT_THAT(error(), HasSubstr("within 10 s: \"b\": look"));
  EXPECT_EQ(jobs_.find(1), nullptr) << "no node has been sent it";
  EXPECT_EQ(versions_.next_deadline(), kForever);
}

TEST_F(JobVersionsTest, AJobEndsWhenItsLastWaitingRankGoes) {
  place(1, {1});
  versions_.close(11, "has left");
  EXPECT_EQ(jobs_.find(1)->stage, JobStage::kPlacing);
  versions_.close(12, "has left");
  EXPECT_EQ(jobs_.find(1), nullptr);
}

TEST_F(JobVersionsTest, ARankThatLeavesARunningJobDesertsIt) {
  run(1, {1});
  versions_.close(11, "has left");
  EXPECT_TRUE(jobs_.find(1)->departed);
  EXPECT_THAT(jobs_.find(1)->missing_ranks(), ElementsAre(0));
}

TEST_F(JobVersionsTest, AChangeMovesTheRanksAndEndsTheOldVersion) {
  run(1, {1});
  begin_next(2, 1, {2});
  versions_.advance_changes(kNow);
  EXPECT_THAT(versions_.take_notifications(), IsEmpty()) << "node 2 has not confirmed";
  versions_.confirm(2, 2);
  versions_.advance_changes(kNow);
  const auto prepare = versions_.take_notifications();
  ASSERT_THAT(prepare, SizeIs(2));
  EXPECT_EQ(prepare[0].word, Change::Word::kPrepare);
  EXPECT_EQ(prepare[0].version->epoch, 2U);
  both_report(2, {Change::Report::kReady, Change::Report::kKnows});
  EXPECT_EQ(jobs_.find(1)->stage, JobStage::kLeaving);
  EXPECT_EQ(jobs_.current("train")->epoch, 2U);
  both_report(2, {Change::Report::kMoved, Change::Report::kLeft});
  EXPECT_THAT(send(), ElementsAre(11));
  EXPECT_EQ(jobs_.find(1)->stage, JobStage::kOver);
}

TEST_F(JobVersionsTest, AChangeThatIsCalledOffEndsOnlyTheNextVersion) {
  run(1, {1});
  begin_next(2, 1, {2});
  versions_.confirm(2, 2);
  versions_.advance_changes(kNow);
  versions_.take_notifications();
  versions_.report(12, 2, {Change::Report::kCannot, {}, "no room"});
  EXPECT_EQ(jobs_.find(1)->trouble, "rank 1: no room");
  EXPECT_EQ(jobs_.find(1)->stage, JobStage::kRunning);
  EXPECT_THAT(send(), ElementsAre(22));
  const auto notifications = versions_.take_notifications();
  ASSERT_THAT(notifications, SizeIs(2));
  EXPECT_EQ(notifications[0].word, Change::Word::kCalledOff);
  EXPECT_EQ(notifications[0].why, "rank 1: no room");
}

TEST_F(JobVersionsTest, AJobEndsInAllItsVersions) {
  run(1, {1});
  begin_next(2, 1, {2});
  versions_.confirm(2, 2);
  versions_.advance_changes(kNow);
  both_report(2, {Change::Report::kReady, Change::Report::kKnows});
  versions_.gone_from(2, 2, refused("dropped"));
  EXPECT_EQ(jobs_.find(2), nullptr);
  EXPECT_EQ(jobs_.find(1)->stage, JobStage::kOver);
  EXPECT_THAT(send(), ElementsAre(11));
}

TEST_F(JobVersionsTest, ANodeThatLeavesFailsTheNextVersion) {
  run(1, {1});
  begin_next(2, 1, {2});
  versions_.node_left(2, refused("node \"b\" has left"));
  EXPECT_EQ(jobs_.find(1)->trouble, "node \"b\" has left");
  EXPECT_EQ(jobs_.find(1)->stage, JobStage::kRunning);
  EXPECT_EQ(jobs_.find(2), nullptr);
}

}  // namespace
}  // namespace tally::control
