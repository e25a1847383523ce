// Jobs that go on without the ranks that they have lost, as the coordinator sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/control/left_out_fixture.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(LeftOutRanksTest, TheOthersGoOn) {
  run();
  coordinator_->lose(3, 0);
  EXPECT_EQ(progress().trouble, "rank 2 died or lost its connection to the coordinator");
  repair_among({1, 2, 4}, {{{7, 3}}, {}, {}});
  EXPECT_EQ(now().left_out, RankNumbers{2});
  EXPECT_EQ(now().ranks, kRanks) << "ranks keep their numbers";
  for (const PlanNode& node : now().nodes) {
    EXPECT_THAT(node.vertices[0].ranks, ElementsAre(0, 1, 3));
  }
  EXPECT_EQ(last_.epoch, now().epoch);
}

TEST_F(LeftOutRanksTest, TheRoundsAreThoseOfTheSurvivors) {
  run();
  coordinator_->lose(3, 0);
  act();
  serve_all();
  words_to({1, 2, 4});
  report({1, 2}, Report::kReady, {{{7, 3}}, {}, {}});
  coordinator_->report(3, next_, {Report::kReady, {{{7, 9}}, {}, {}}});
  EXPECT_EQ(progress().waits_for, "waits for rank 3 to open sessions of its next version");
  report({4}, Report::kReady, {{{7, 4}}, {}, {}});
  EXPECT_THAT(words_to({1, 2, 4}), ElementsAre(Word::kDecided));
  EXPECT_EQ(last_.decision.first, (Rounds{{7, 4}}));
}

TEST_F(LeftOutRanksTest, RanksThatDieDuringTheRepairAreLeftOutToo) {
  run();
  coordinator_->lose(3, 0);
  act();
  serve_all();
  words_to({1, 2, 4});
  report({1, 2}, Report::kReady);
  coordinator_->lose(4, 0);
  EXPECT_THAT(words_to({1, 2}), ElementsAre(Word::kCalledOff));
  repair_among({1, 2});
  EXPECT_EQ(now().left_out, RankNumbers({2, 3}));
}

TEST_F(LeftOutRanksTest, OneRankIsEnoughWithoutAQuorum) {
  run();
  for (const auto ticket : {1, 2, 3}) coordinator_->lose(static_cast<std::uint64_t>(ticket), 0);
  repair_among({4});
  EXPECT_EQ(now().left_out, RankNumbers({0, 1, 2}));
}

TEST_F(LeftOutRanksTest, AJobBelowItsQuorumEnds) {
  run(3);
  coordinator_->lose(3, 0);
  repair_among({1, 2, 4});
  lose(1, next_, "peer lost");
  coordinator_->lose(4, 0);
  EXPECT_THAT(words_to({1, 2}), ElementsAre(Word::kEnded));
  EXPECT_EQ(last_.culprit, 3U);
  EXPECT_EQ(epoch(), 0U);
}

TEST_F(LeftOutRanksTest, TheRanksOfAJobHaveOnePolicy) {
  coordinator_->open(1, wish(0), now_);
  coordinator_->open(2, opening(1, "train", "t", kRanks), now_);
  EXPECT_EQ(error(2),
            "job \"train\" has on_rank_loss \"finish\", rank 1 says \"fail\": give all ranks the "
            "same");
  coordinator_->open(3, wish(2, 3), now_);
  EXPECT_THAT(error(3), HasSubstr("rank 2 says \"finish\" with a quorum of 3"));
}

TEST_F(LeftOutRanksTest, ANodeIsLostTogetherWithARank) {
  run();
  coordinator_->leave(nodes_[1], "its cable was cut");
  coordinator_->lose(2, 0);
  nodes_.pop_back();
  repair_among({1, 3, 4});
  EXPECT_EQ(now().left_out, RankNumbers{1});
  EXPECT_EQ(now().nodes.size(), 1U);
}

TEST_F(LeftOutRanksTest, NextVersionsLeaveTheRankOutToo) {
  run();
  coordinator_->lose(3, 0);
  repair_among({1, 2, 4});
  lose(1, next_);
  repair_among({1, 2, 4});
  EXPECT_EQ(now().left_out, RankNumbers{2});
  ASSERT_TRUE(coordinator_->drain("b", false, now_).ok());
  serve_all();
  EXPECT_THAT(words_to({1, 2, 4}), ElementsAre(Word::kPrepare));
  EXPECT_EQ(last_.version->left_out, RankNumbers{2});
}

TEST_F(LeftOutRanksTest, ARankThatLeavesIsLeftOutWhenAnotherMissesIt) {
  run();
  coordinator_->close(3);
  EXPECT_THAT(words_to({}), IsEmpty());
  EXPECT_EQ(stage(), "running");
  coordinator_->report(nodes_[0], {now().nodes[0].placement, true, ""});
  EXPECT_EQ(stage(), "running");
  lose(1, first_, "rank 2 has left");
  repair_among({1, 2, 4});
  EXPECT_EQ(now().left_out, RankNumbers{2});
}

TEST_F(LeftOutRanksTest, ARankMayLeaveWhileNodesTakeTheNextVersion) {
  run();
  ASSERT_TRUE(coordinator_->drain("b", false, now_).ok());
  act();
  coordinator_->close(3);
  serve_all();
  EXPECT_THAT(words_to({1, 2, 4}), ElementsAre(Word::kPrepare)) << "of a version without it";
  EXPECT_EQ(last_.version->left_out, RankNumbers{2});
}

TEST_F(LeftOutRanksTest, ARankMayLeaveWhileOthersLeaveTheOldVersion) {
  run();
  ASSERT_TRUE(coordinator_->drain("b", false, now_).ok());
  act();
  serve_all();
  words_to({1, 2, 3, 4});
  for (const Report what : {Report::kReady, Report::kKnows}) {
    report({1, 2, 3, 4}, what);
    words_to({1, 2, 3, 4});
  }
  report({1, 2, 4}, Report::kMoved);
  EXPECT_EQ(stage(), "changing");
  coordinator_->close(3);
  EXPECT_THAT(words_to({1, 2, 4}), ElementsAre(Word::kLeave));
  report({1, 2, 4}, Report::kLeft);
  act();
  EXPECT_EQ(stage(), "running");
}

TEST_F(LeftOutRanksTest, ARankThatLeavesBeforeAllHaveComeMayComeAgain) {
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    coordinator_->open(rank + 1, wish(rank), now_);
    serve_all();
    EXPECT_EQ(error(rank + 1), "");
  }
  coordinator_->close(3);
  coordinator_->open(5, wish(2), now_);
  EXPECT_EQ(error(5), "");
  coordinator_->open(4, wish(3), now_);
  EXPECT_EQ(error(4), "");
  first_ = epoch();
  for (const std::uint64_t ticket : {1, 2, 4, 5}) coordinator_->listen(ticket, true);
  coordinator_->lose(1, 0);
  repair_among({2, 4, 5});
}

TEST_F(LeftOutRanksTest, AJobWhoseRanksHaveAllLeftIsOver) {
  run();
  for (const auto ticket : {1, 2, 3, 4}) coordinator_->close(static_cast<std::uint64_t>(ticket));
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    coordinator_->report(nodes_[i], {store_.jobs().at(first_)->nodes[i].placement, true, ""});
  }
  act();
  EXPECT_THAT(store_.jobs(), IsEmpty());
}

TEST_F(LeftOutRanksTest, OperatorsSeeWhichRanksAreLeftOut) {
  run();
  EXPECT_EQ(progress().come, 4U);
  coordinator_->lose(3, 0);
  repair_among({1, 2, 4});
  EXPECT_EQ(progress().come, 3U);
  EXPECT_EQ(progress().left_out, RankNumbers{2});
}

// -- Ranks that are late ---------------------------------------------------------------------

TEST_F(LeftOutRanksTest, ARankThatIsLateLosesItsPlace) {
  run();
  coordinator_->report(1, first_, {Report::kLost, {}, "tag 7 waits for rank 2", {}, 2});
  coordinator_->report(2, first_, {Report::kLost, {}, "tag 7 waits for rank 2", {}, 2});
  EXPECT_THAT(words_to({3}), ElementsAre(Word::kEnded));
  EXPECT_EQ(last_.why, "the job goes on without this rank, which was late");
  repair_among({1, 2, 4});
  EXPECT_EQ(now().left_out, RankNumbers{2});
  coordinator_->lose(3, 0);
  EXPECT_EQ(stage(), "running") << "it had no place any more";
}

TEST_F(LeftOutRanksTest, ALateRankEndsAJobThatNeedsIt) {
  run(4);
  for (const std::uint64_t ticket : {1, 2, 4}) {
    coordinator_->report(ticket, first_, {Report::kLost, {}, "tag 7 waits for rank 2", {}, 2});
  }
  EXPECT_THAT(words_to({1, 2, 4}), ElementsAre(Word::kEnded));
  EXPECT_EQ(last_.why, "rank 2 has not announced an operation by its deadline");
  EXPECT_EQ(last_.culprit, 2U);
}

TEST_F(LeftOutRanksTest, ARankThatDoesNotAnswerARepairIsLeftOutToo) {
  run();
  coordinator_->lose(3, 0);
  act();
  serve_all();
  EXPECT_THAT(words_to({1, 2, 4}), ElementsAre(Word::kPrepare));
  report({1, 2}, Report::kReady);
  wait(FaultTimeouts{}.change() - kMillisecond, nodes_);
  EXPECT_THAT(words_to({}), IsEmpty());
  wait(kMillisecond, nodes_);
  std::map<Coordinator::Ticket, Word> words;
  for (const auto& one : std::exchange(notifications_, {})) words[one.ticket] = one.word;
  EXPECT_EQ(words, (std::map<Coordinator::Ticket, Word>{
                       {1, Word::kCalledOff}, {2, Word::kCalledOff}, {4, Word::kEnded}}));
  repair_among({1, 2});
  EXPECT_EQ(now().left_out, RankNumbers({2, 3}));
}

TEST_F(LeftOutRanksTest, ARankThatDoesNotAnswerADecisionIsLeftOutToo) {
  run();
  coordinator_->lose(3, 0);
  act();
  serve_all();
  words_to({1, 2, 4});
  report({1, 2, 4}, Report::kReady);
  EXPECT_THAT(words_to({1, 2, 4}), ElementsAre(Word::kDecided));
  report({1, 2}, Report::kKnows);
  wait(FaultTimeouts{}.change(), nodes_);
  notifications_.clear();
  repair_among({1, 2});
  EXPECT_EQ(now().left_out, RankNumbers({2, 3}));
}

TEST_F(LeftOutRanksTest, ASilentRankEndsAJobThatNeedsIt) {
  run(3);
  coordinator_->lose(3, 0);
  act();
  serve_all();
  words_to({1, 2, 4});
  report({1, 2}, Report::kReady);
  wait(FaultTimeouts{}.repair() - kMillisecond, nodes_);
  EXPECT_THAT(words_to({}), IsEmpty());
  wait(kMillisecond, nodes_);
  EXPECT_THAT(words_to({1, 2, 4}), ElementsAre(Word::kCalledOff, Word::kEnded));
}

TEST_F(LeftOutRanksTest, ReportsThatBlameNoRankOfTheJobBlameNobody) {
  run();
  coordinator_->report(1, first_, {Report::kLost, {}, "", 9, 4});
  repair_among({1, 2, 3, 4});
}

// -- Elected coordinators --------------------------------------------------------------------

TEST_F(LeftOutRanksTest, ARankThatMayComeBackIsWaitedFor) {
  run();
  coordinator_->lose(3, now_ + kReconnect);
  lose(1, first_, "peer lost");
  EXPECT_THAT(words_to({}), IsEmpty());
  now_ += kReconnect;
  act();
  repair_among({1, 2, 4});
  EXPECT_EQ(now().left_out, RankNumbers{2});
}

TEST_F(LeftOutRanksTest, ARankWhoseSessionsHaveEndedTooIsNotWaitedFor) {
  run();
  coordinator_->lose(3, now_ + kReconnect);
  coordinator_->report(1, first_, {Report::kLost, {}, "rank 2 died", 2});
  repair_among({1, 2, 4});
  EXPECT_EQ(now().left_out, RankNumbers{2});
  // The same when its sessions end first.
  const std::uint32_t before = next_;
  coordinator_->report(1, before, {Report::kLost, {}, "rank 3 died", 3});
  coordinator_->lose(4, now_ + kReconnect);
  repair_among({1, 2});
  EXPECT_EQ(now().left_out, RankNumbers({2, 3}));
}

TEST_F(LeftOutRanksTest, ARankThatHasNotComeToTheNextCoordinatorYetIsWaitedFor) {
  run();
  take_over();
  for (const std::uint32_t rank : {0U, 1U, 3U}) resume(rank + 11, rank);
  coordinator_->report(11, first_, {Report::kLost, {}, "rank 2 died", 2});
  EXPECT_THAT(words_to({}), IsEmpty());
  resume(13, 2);
  repair_among({11, 12, 13, 14});
  EXPECT_THAT(now().left_out, IsEmpty());
}

TEST_F(LeftOutRanksTest, ARankThatHasItsConnectionIsNotLeftOutBecauseOfASession) {
  run();
  coordinator_->report(1, first_, {Report::kLost, {}, "rank 2 died", 2});
  repair_among({1, 2, 3, 4});
  EXPECT_THAT(now().left_out, IsEmpty());
}

TEST_F(LeftOutRanksTest, ALiveRankThatWasLeftOutCannotResume) {
  run();
  coordinator_->lose(3, 0);
  coordinator_->resume(5, wish(2), {first_});
  EXPECT_EQ(answers_at(5), Status::kStaleEpoch);
  repair_among({1, 2, 4});
  coordinator_->resume(6, wish(2), {first_, next_});
  EXPECT_EQ(answers_at(6), Status::kStaleEpoch);
}

TEST_F(LeftOutRanksTest, TheNextCoordinatorLeavesThemOutToo) {
  run();
  coordinator_->lose(3, 0);
  repair_among({1, 2, 4});
  take_over();
  EXPECT_EQ(now().left_out, RankNumbers{2});
  for (const std::uint32_t rank : {0U, 1U, 3U}) resume(rank + 11, rank);
  lose(11, now().epoch);
  repair_among({11, 12, 14});
  EXPECT_EQ(now().left_out, RankNumbers{2});
}

}  // namespace
}  // namespace tally::control
