// Ranks that return to a job which has gone on without them, as the coordinator sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/control/left_out_fixture.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ReturningLeftOutRanksTest : public LeftOutRanksTest {
 protected:
  void SetUp() override {
    LeftOutRanksTest::SetUp();
    run();
    coordinator_->lose(3, 0);
    repair_among({1, 2, 4});
  }
};

TEST_F(ReturningLeftOutRanksTest, HaveAPlaceInAVersionThatAllChangeTo) {
  coordinator_->open(5, wish(2), now_);
  EXPECT_TRUE(waits(5));
  serve_all();
  EXPECT_THAT(words_to({1, 2, 4}), ElementsAre(Word::kPrepare));
  EXPECT_FALSE(last_.is_repair);
  EXPECT_THAT(last_.version->left_out, IsEmpty());
  report({1, 2}, Report::kReady, {{{7, 3}}, {}, {}});
  report({4}, Report::kReady, {{{7, 4}, {8, 1}}, {}, {}});
  words_to({1, 2, 4});
  EXPECT_TRUE(waits(5)) << "the change may still be called off";
  report({1, 2, 4}, Report::kKnows);
  const auto actions = coordinator_->act(now_);
  ASSERT_EQ(actions.answers.size(), 1U);
  EXPECT_EQ(actions.answers[0].ticket, 5U);
  EXPECT_EQ(actions.answers[0].first, (Rounds{{7, 4}, {8, 1}}));
  EXPECT_EQ((*actions.answers[0].outcome)->epoch, next_);
  EXPECT_EQ(epoch(), next_);
  // The rank is one of the job's from now on, also before it listens.
  lose(1, next_);
  repair_among({1, 2, 4, 5});
  EXPECT_THAT(now().left_out, IsEmpty());
}

TEST_F(ReturningLeftOutRanksTest, MayGoAgainBeforeTheyHaveAPlace) {
  coordinator_->open(5, wish(2), now_);
  act();
  serve_all();
  words_to({1, 2, 4});
  coordinator_->lose(5, 0);
  EXPECT_THAT(words_to({1, 2, 4}), ElementsAre(Word::kCalledOff));
  EXPECT_EQ(stage(), "running");
  EXPECT_EQ(now().left_out, RankNumbers{2});
  coordinator_->open(6, wish(2), now_);
  act();
  serve_all();
  EXPECT_THAT(words_to({1, 2, 4}), ElementsAre(Word::kPrepare));
}

TEST_F(ReturningLeftOutRanksTest, WaitForARepair) {
  lose(1, next_);
  coordinator_->open(5, wish(2), now_);
  repair_among({1, 2, 4});
  EXPECT_EQ(now().left_out, RankNumbers{2});
  EXPECT_TRUE(waits(5));
  serve_all();
  EXPECT_THAT(words_to({1, 2, 4}), ElementsAre(Word::kPrepare)) << "after the repair";
  EXPECT_THAT(last_.version->left_out, IsEmpty());
}

TEST_F(ReturningLeftOutRanksTest, AskAgainWhenTheJobEnds) {
  coordinator_->open(5, wish(2), now_);
  EXPECT_TRUE(waits(5));
  for (const auto ticket : {1, 2, 4}) coordinator_->lose(static_cast<std::uint64_t>(ticket), 0);
  EXPECT_EQ(answers_at(5), Status::kStaleEpoch);
}

TEST_F(ReturningLeftOutRanksTest, WaitWhenTheChangeIsCalledOff) {
  coordinator_->open(5, wish(2), now_);
  act();
  serve_all();
  words_to({1, 2, 4});
  coordinator_->report(1, next_, {Report::kCannot, {}, "no memory"});
  EXPECT_THAT(words_to({1, 2, 4}), ElementsAre(Word::kCalledOff));
  EXPECT_TRUE(waits(5));
  now_ += kCalm;
  act();
  serve_all();
  EXPECT_THAT(words_to({1, 2, 4}), ElementsAre(Word::kPrepare));
}

TEST_F(ReturningLeftOutRanksTest, OnlyOneProcessOfARankReturns) {
  coordinator_->open(5, wish(2), now_);
  coordinator_->open(6, wish(2), now_);
  EXPECT_THAT(error(6), HasSubstr("rank 2 is taken"));
}

TEST_F(LeftOutRanksTest, ARankThatHasLeftAndReturnsEndsTheVersionThatItHasLeft) {
  run();
  coordinator_->close(3);
  coordinator_->open(5, wish(2), now_);
  EXPECT_EQ(stage(), "repairing");
  repair_among({1, 2, 4});
  serve_all();
  EXPECT_THAT(words_to({1, 2, 4}), ElementsAre(Word::kPrepare));
  EXPECT_THAT(last_.version->left_out, IsEmpty());
}

}  // namespace
}  // namespace tally::control
