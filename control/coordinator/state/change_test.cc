#include "control/coordinator/state/change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "tests/support/control/usual_timeouts.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using Stage = Change::Stage;

constexpr Nanos kStart = 1000 * kSecond;

// The instruction that all ranks get, once each. kPrepare stands for none, because no later stage
// sends it.
Change::Word instruction(Change& change, std::uint32_t ranks) {
  std::set<std::uint32_t> who;
  std::set<Change::Word> what;
  for (const Change::Instruction& one : change.take()) {
    who.insert(one.rank);
    what.insert(one.word);
  }
  EXPECT_TRUE(what.empty() || (what.size() == 1 && who.size() == ranks));
  return what.empty() ? Change::Word::kPrepare : *what.begin();
}

void all_report(Change& change, std::uint32_t ranks, Change::Report report) {
  for (std::uint32_t rank = ranks; rank-- > 0;) change.report(rank, report);
}

TEST(Change, GoesThroughItsStages) {
  Change change(3, kStart);
  EXPECT_EQ(change.take().size(), 3U);
  change.report(1, Change::Report::kReady, {{{7, 4}, {9, 1}}});
  change.report(0, Change::Report::kReady, {{{7, 5}}});
  change.report(0, Change::Report::kReady, {{{7, 50}}});  // twice
  EXPECT_THAT(change.waits_for(), ElementsAre(2));
  EXPECT_THAT(change.take(), IsEmpty());
  change.report(2, Change::Report::kReady, {{{3, 2}, {7, 5}}});
  EXPECT_EQ(change.stage(), Stage::kDeciding);
  EXPECT_EQ(instruction(change, 3), Change::Word::kDecided);
  EXPECT_THAT(change.decision().first, ElementsAre(Pair(3, 2), Pair(7, 5), Pair(9, 1)));
  change.report(2, Change::Report::kMoved);  // too early
  all_report(change, 3, Change::Report::kKnows);
  EXPECT_EQ(change.stage(), Stage::kMoving);
  EXPECT_EQ(instruction(change, 3), Change::Word::kGo);
  EXPECT_EQ(change.deadline(), kForever);
  change.report(1, Change::Report::kReady, {{{7, 99}}});  // too late
  all_report(change, 3, Change::Report::kMoved);
  EXPECT_EQ(instruction(change, 3), Change::Word::kLeave);
  EXPECT_FALSE(change.ended());
  all_report(change, 3, Change::Report::kLeft);
  EXPECT_EQ(change.stage(), Stage::kOver);
  EXPECT_THAT(change.decision().first, ElementsAre(Pair(3, 2), Pair(7, 5), Pair(9, 1)));
}

TEST(Change, CanBeCalledOffUntilAllRanksConfirm) {
  for (const Stage stage : {Stage::kAsking, Stage::kDeciding}) {
    for (const char* how : {"lost", "deadline", "impossible"}) {
      Change change(2, kStart);
      if (stage == Stage::kDeciding) all_report(change, 2, Change::Report::kReady);
      change.report(0, stage == Stage::kAsking ? Change::Report::kReady : Change::Report::kKnows);
      change.take();
      ASSERT_EQ(change.stage(), stage);
      if (how == std::string("lost")) change.lost(1);
      if (how == std::string("impossible")) change.call_off("node \"b\" has no room");
      if (how == std::string("deadline")) {
        change.tick(change.deadline() - 1);
        EXPECT_FALSE(change.ended());
        change.tick(change.deadline());
        EXPECT_THAT(change.why_called_off(), HasSubstr("no answer of rank 1 within 30 s"));
      }
      EXPECT_EQ(change.stage(), Stage::kCalledOff);
      EXPECT_EQ(instruction(change, 2), Change::Word::kCalledOff);
      change.report(1, stage == Stage::kAsking ? Change::Report::kReady : Change::Report::kKnows);
      EXPECT_THAT(change.take(), IsEmpty()) << "what crossed it";
    }
  }
}

TEST(Change, CannotBeCalledOffAfterAllRanksConfirm) {
  Change change(2, kStart);
  all_report(change, 2, Change::Report::kReady);
  all_report(change, 2, Change::Report::kKnows);
  change.take();
  change.lost(0);
  change.tick(kStart + 3600 * kSecond);
  change.call_off("too late");
  EXPECT_EQ(change.stage(), Stage::kMoving);
  EXPECT_THAT(change.take(), IsEmpty());
  EXPECT_THAT(change.waits_for(), ElementsAre(0, 1));
}

// Every order of two ranks' reports and of failures. No rank gets kGo before both have reported
// kKnows. No rank gets kCalledOff after a rank got kGo.
class EveryOrder {
 public:
  std::size_t explore(const Change& before, std::vector<int> next_report, bool disturbed) {
    std::size_t ends = 0;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      if (next_report[rank] > 3) continue;
      Change change = before;
      auto reports = next_report;
      change.report(rank, static_cast<Change::Report>(reports[rank]), {{{7, rank + 1}}});
      // A rank sends the next report after the next instruction, which all ranks' reports precede.
      ++reports[rank];
      ends += judge(change, reports, disturbed);
    }
    for (int event = 0; event < 4 && !disturbed; ++event) {
      Change change = before;
      if (event < 2) change.lost(static_cast<std::uint32_t>(event));
      if (event == 2) change.call_off("why not");
      if (event == 3) change.tick(kStart + kChangeTimeout);
      ends += judge(change, next_report, true);
    }
    return ends == 0 ? 1 : ends;
  }

 private:
  std::size_t judge(Change change, const std::vector<int>& reports, bool disturbed) {
    for (const Change::Instruction& one : change.take()) {
      if (one.word == Change::Word::kGo) {
        EXPECT_GT(reports[0], static_cast<int>(Change::Report::kKnows));
        EXPECT_GT(reports[1], static_cast<int>(Change::Report::kKnows));
        EXPECT_THAT(change.decision().first, ElementsAre(Pair(7, 2)));
      }
      const bool all_knew = reports[0] > static_cast<int>(Change::Report::kKnows) &&
                            reports[1] > static_cast<int>(Change::Report::kKnows);
      EXPECT_FALSE(all_knew && one.word == Change::Word::kCalledOff);
    }
    if (change.ended()) return 1;
    // No rank can be ahead by more than one report.
    if (std::abs(reports[0] - reports[1]) > 1) return 1;
    return explore(change, reports, disturbed);
  }
};

TEST(Change, NoRankMovesBeforeAllConfirmInAnyOrder) {
  Change change(2, kStart);
  change.take();
  EXPECT_GT(EveryOrder().explore(change, {0, 0}, false), 100U);
}

TEST(Change, ARepairIsOverWhenAllRanksConfirm) {
  Change change = Change::repair(2);
  EXPECT_TRUE(change.is_repair());
  EXPECT_EQ(instruction(change, 2), Change::Word::kPrepare);
  change.tick(kForever - 1);
  EXPECT_EQ(change.deadline(), kForever) << "its attempts have a limit together";
  EXPECT_FALSE(change.has_reported(1));
  change.report(1, Change::Report::kReady, {{{7, 4}}, {}, {7}});
  EXPECT_TRUE(change.has_reported(1));
  EXPECT_FALSE(change.has_reported(0));
  change.report(0, Change::Report::kReady,
                {{{7, 3}, {8, 2}}, {{8, {Status::kDeadline, 1, 1}}}, {}});
  EXPECT_EQ(instruction(change, 2), Change::Word::kDecided);
  EXPECT_THAT(change.decision().first, ElementsAre(Pair(7, 3), Pair(8, 2)));
  EXPECT_THAT(change.decision().failed,
              ElementsAre(Pair(8, RoundFailure{Status::kDeadline, 1, 1})));
  change.report(0, Change::Report::kKnows);
  EXPECT_THAT(change.take(), IsEmpty());
  change.report(1, Change::Report::kKnows);
  EXPECT_EQ(instruction(change, 2), Change::Word::kGo);
  EXPECT_EQ(change.stage(), Stage::kOver);
  change.call_off("too late");
  EXPECT_EQ(change.stage(), Stage::kOver);
}

TEST(Change, ARepairCanBeCalledOffUntilAllRanksConfirm) {
  Change change = Change::repair(2);
  all_report(change, 2, Change::Report::kReady);
  change.report(0, Change::Report::kKnows);
  change.take();
  change.call_off("node \"b\" has left");
  EXPECT_EQ(instruction(change, 2), Change::Word::kCalledOff);
  change.report(1, Change::Report::kKnows);
  EXPECT_THAT(change.take(), IsEmpty());
}

TEST(Change, NamesAtMostEightRanks) {
  EXPECT_EQ(name_ranks({3}), "rank 3");
  EXPECT_EQ(name_ranks({0, 4}), "ranks 0, 4");
  EXPECT_EQ(name_ranks({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
}

TEST(Change, IsCalledOffWhenItsRanksHaveUsedTooManyTags) {
  Change planned(2, 0);
  Change repair = Change::repair(2);
  for (Change* change : {&planned, &repair}) {
    for (const std::uint32_t rank : {0U, 1U}) {
      RankRounds rounds;
      for (std::uint32_t tag = 0; tag < kMostDecidedTags * 2 / 3; ++tag) {
        rounds.next[rank << 20 | tag] = 1;
      }
      EXPECT_EQ(change->stage(), Change::Stage::kAsking);
      change->report(rank, Change::Report::kReady, rounds);
    }
    EXPECT_EQ(change->stage(), Change::Stage::kCalledOff);
  }
}

}  // namespace
}  // namespace tally::control
