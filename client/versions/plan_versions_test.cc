#include "client/versions/plan_versions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/client/recorded_version.h"

namespace tally::client {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class PlanVersionsTest : public ::testing::Test {
 protected:
  static std::string path(const char* name) {
    return "/tmp/tally-plan-versions-" + std::to_string(::getpid()) + "-" + name + ".sock";
  }
  static json answer(const std::string&, const json&) { return {{"result", json::object()}}; }

  ScriptedNode a_{path("a"), answer}, b_{path("b"), answer};
  RecordedVersion first_{a_, 3}, second_{b_, 4};
  PlanVersions versions_{std::move(first_.version)};
  PlanSwitch plans_;
};

TEST_F(PlanVersionsTest, NextCarriesNewRoundsAfterTheChange) {
  PlanVersion& next = versions_.add_next(std::move(second_.version));
  ASSERT_EQ(RecordedVersion::post(versions_.now(), 7), 0U);
  EXPECT_EQ(versions_.all().count, 2U);
  EXPECT_EQ(versions_.books(plans_).old, nullptr);
  plans_.hold();
  plans_.know({{7, 3}, {8, 0}, {9, 2}});
  versions_.go_over(plans_);
  EXPECT_EQ(&versions_.now(), &next);
  EXPECT_EQ(versions_.next(), nullptr);
  ASSERT_NE(versions_.old(), nullptr);
  EXPECT_EQ(versions_.old()->config.epoch, 3U);
  EXPECT_EQ(next.book.next_round(7), 3U) << "rounds 1 and 2 are the old version's";
  EXPECT_EQ(next.book.next_round(9), 2U) << "this rank has not posted it yet";
  EXPECT_EQ(versions_.books(plans_).old, &versions_.old()->book);
  versions_.remove(*versions_.old());
  EXPECT_EQ(versions_.old(), nullptr);
  EXPECT_EQ(&versions_.now(), &next);
}

TEST_F(PlanVersionsTest, CountsTheOperationsOfBothVersions) {
  versions_.add_next(std::move(second_.version));
  RecordedVersion::post(versions_.now(), 7, 50);
  plans_.hold();
  plans_.know({});
  versions_.go_over(plans_);
  RecordedVersion::post(versions_.now(), 9, 80);
  EXPECT_EQ(versions_.outstanding(), 2U);
  EXPECT_TRUE(versions_.outstanding(7));
  EXPECT_TRUE(versions_.outstanding(9));
  EXPECT_FALSE(versions_.outstanding(8));
  EXPECT_EQ(versions_.earliest_until(0), 50);
  EXPECT_THAT(versions_.overdue_nodes(60), HasSubstr(a_.address()));
  EXPECT_EQ(versions_.overdue_nodes(60).find(b_.address()), std::string::npos);
  EXPECT_FALSE(versions_.has_finished());
  versions_.abandon(Status::kNodeLost);
  EXPECT_EQ(versions_.outstanding(), 0U);
  EXPECT_TRUE(versions_.has_finished());
}

TEST_F(PlanVersionsTest, AVersionThatIsNotTakenIsRemoved) {
  PlanVersion& next = versions_.add_next(std::move(second_.version));
  EXPECT_EQ(versions_.next(), &next);
  versions_.remove(next);
  EXPECT_EQ(versions_.next(), nullptr);
  EXPECT_EQ(versions_.now().config.epoch, 3U);
}

// Tag 7 has failed in round 0, tag 8 is outstanding in round 0, and tag 9 is not posted. The others
// have posted tag 9 once.
class LostVersionsTest : public PlanVersionsTest {
 protected:
  LostVersionsTest() {
    versions_.add_next(std::move(second_.version));
    RecordedVersion::post(versions_.now(), 7);
    versions_.now().book.abandon(Status::kDeadline);
    wire::Notice eighth;
    eighth.tag = 8;
    eighth.count = 16;
    versions_.now().book.post(eighth, 8, kForever, eighth_);
    plans_.hold();
    plans_.know({{7, 1}, {8, 1}, {9, 1}});
    versions_.go_over(plans_);
  }
  // Ends the outstanding operation of tag 8 well.
  void succeed_eighth() {
    for (const Outbound& sent : eighth_) {
      wire::Completion completion;
      completion.tag = sent.notice.tag;
      completion.round = sent.notice.round;
      completion.part = sent.notice.part;
      completion.cookie = sent.notice.cookie;
      std::vector<Outbound> none;
      ASSERT_EQ(versions_.old()->book.complete(sent.shard, completion, none), Status::kOk);
    }
  }

  std::vector<Outbound> eighth_;  // its notices
};

TEST_F(LostVersionsTest, ThisRanksRoundsGoBackToThoseThatHaveNotEnded) {
  versions_.old()->book.interrupt();
  versions_.keep_rounds(plans_);
  versions_.keep_only_now();
  const RoundsByTag rounds = versions_.now().book.rounds();
  EXPECT_EQ(rounds.at(7).next, 1U);
  EXPECT_EQ(rounds.at(7).failure->status, Status::kDeadline);
  EXPECT_EQ(rounds.at(8), (TagRounds{0, {}, false}));
  EXPECT_EQ(rounds.at(9), (TagRounds{0, {}, false})) << "a tag that this rank has not used";
}

TEST_F(LostVersionsTest, FailuresOutliveTheVersionInWhichTheyHappened) {
  versions_.old()->book.abandon(Status::kCancelled);  // tag 8
  RecordedVersion::post(versions_.now(), 8);
  versions_.remove(*versions_.old());
  versions_.now().book.interrupt();
  EXPECT_EQ(versions_.now().book.rounds().at(8).next, 1U);
  EXPECT_EQ(versions_.now().book.rounds().at(8).failure->status, Status::kCancelled);
}

TEST_F(LostVersionsTest, AFailureInTheNewVersionHidesNoneBefore) {
  RecordedVersion::post(versions_.now(), 7);
  versions_.now().book.abandon(Status::kCancelled);
  versions_.old()->book.interrupt();
  versions_.keep_rounds(plans_);
  EXPECT_EQ(versions_.now().book.rounds().at(7).next, 2U);
  EXPECT_EQ(versions_.now().book.rounds().at(7).failure,
            (RoundFailure{Status::kCancelled, wire::kNoRank, 0}));
}

TEST_F(LostVersionsTest, ASuccessInTheOldVersionCountsAlsoAfterAFailureInTheNewOne) {
  succeed_eighth();
  RecordedVersion::post(versions_.now(), 8);
  versions_.now().book.abandon(Status::kCancelled);
  versions_.remove(*versions_.old());
  EXPECT_EQ(versions_.now().book.rounds().at(8).next, 2U);
  EXPECT_EQ(versions_.now().book.rounds().at(8).failure,
            (RoundFailure{Status::kCancelled, wire::kNoRank, 1}));
}

TEST_F(LostVersionsTest, TheNextVersionTakesThePlaceOfTheLostOne) {
  versions_.keep_only_now();
  ScriptedNode c(path("c"), answer);
  RecordedVersion third(c, 5);
  PlanVersion& next = versions_.add_next(std::move(third.version));
  versions_.replace({{{7, 2}, {9, 0}}, {{7, {Status::kDeadline, 1, 1}}}});
  EXPECT_EQ(&versions_.now(), &next);
  EXPECT_EQ(versions_.all().count, 1U);
  EXPECT_EQ(next.book.next_round(7), 2U);
  EXPECT_EQ(next.book.rounds().at(7).failure, (RoundFailure{Status::kDeadline, 1, 1}));
}

TEST_F(PlanVersionsTest, IsFencedOnceAllNodesAre) {
  versions_.add_next(std::move(second_.version));
  EXPECT_TRUE(versions_.fence(0));
  second_.connection->fenced = false;
  EXPECT_FALSE(versions_.fence(0));
}

}  // namespace
}  // namespace tally::client
