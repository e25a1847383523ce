#include "control/coordinator/state/repair_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr std::uint32_t kReportedTag = 7;

// What one rank reports about the tag.
struct Reported {
  std::uint32_t next = 0;
  std::optional<RoundFailure> failed{};
  bool kept = false;
};

RoundDecision decide(const std::vector<Reported>& ranks) {
  RepairRounds rounds(static_cast<std::uint32_t>(ranks.size()));
  // In descending order, because the decision must not depend on it.
  for (std::uint32_t rank = static_cast<std::uint32_t>(ranks.size()); rank-- > 0;) {
    RankRounds report;
    report.next[kReportedTag] = ranks[rank].next;
    if (ranks[rank].failed) report.failed[kReportedTag] = *ranks[rank].failed;
    if (ranks[rank].kept) report.kept.insert(kReportedTag);
    rounds.add(rank, report);
  }
  return rounds.decide();
}

constexpr RoundFailure kDeadlineAt4{Status::kDeadline, 1, 4};

TEST(RepairRounds, TheLargestRoundThatHasNotEndedIsTheFirst) {
  const auto decision = decide({{3}, {4}, {3}});
  EXPECT_THAT(decision.first, ElementsAre(Pair(kReportedTag, 4)));
  EXPECT_THAT(decision.failed, IsEmpty());
}

TEST(RepairRounds, ATagThatARankHasNotUsedHasRound0There) {
  RepairRounds rounds(2);
  rounds.add(0, {{{kReportedTag, 1}, {9, 0}}, {}, {kReportedTag}});
  rounds.add(1, {});
  const auto decision = rounds.decide();
  EXPECT_THAT(decision.first, ElementsAre(Pair(kReportedTag, 0))) << "it is done again";
  EXPECT_THAT(decision.failed, IsEmpty());
}

TEST(RepairRounds, ARoundThatAllFurthestRanksHaveKeptIsDoneAgain) {
  EXPECT_EQ(decide({{5, {}, true}, {4}, {5, {}, true}}).first[kReportedTag], 4U);
  EXPECT_EQ(decide({{5, {}, true}, {4, {}, true}}).first[kReportedTag], 4U);
}

TEST(RepairRounds, ARoundThatAFurthestRankHasNotKeptIsNotDoneAgain) {
  EXPECT_EQ(decide({{5, {}, true}, {4}, {5}}).first[kReportedTag], 5U);
}

TEST(RepairRounds, ARoundThatHasEndedEverywhereIsNotDoneAgain) {
  EXPECT_EQ(decide({{5, {}, true}, {5, {}, true}}).first[kReportedTag], 5U);
}

TEST(RepairRounds, ARoundThatFailedAtAllFurthestRanksFailsEverywhere) {
  const auto decision =
      decide({{4}, {5, RoundFailure{Status::kMismatch, 0, 3}}, {5, kDeadlineAt4}});
  EXPECT_EQ(decision.first.at(kReportedTag), 5U);
  EXPECT_THAT(decision.failed,
              ElementsAre(Pair(kReportedTag, RoundFailure{Status::kMismatch, 0, 4})))
      << "as at the lowest rank; all rounds have succeeded that any rank knows of";
}

TEST(RepairRounds, RoundsBelowTheNextOfARankWithoutFailureHaveSucceeded) {
  const auto decision = decide({{4}, {5, RoundFailure{Status::kDeadline, 1, 2}}});
  EXPECT_EQ(decision.failed.at(kReportedTag).succeeded, 4U);
}

TEST(RepairRounds, ARoundThatSucceededAtOneFurthestRankSucceedsEverywhere) {
  const auto decision = decide({{5, kDeadlineAt4}, {5}, {4}});
  EXPECT_EQ(decision.first.at(kReportedTag), 5U);
  EXPECT_THAT(decision.failed, IsEmpty());
  EXPECT_EQ(decide({{5, kDeadlineAt4}, {5, {}, true}, {4}}).first[kReportedTag], 5U)
      << "one of them cannot do it again";
}

TEST(RepairRounds, AFailureThatOtherRanksArePastDoesNotCount) {
  EXPECT_THAT(decide({{5, kDeadlineAt4}, {6}}).failed, IsEmpty());
  EXPECT_THAT(decide({{6}, {5, kDeadlineAt4}}).failed, IsEmpty());
}

TEST(RepairRounds, TagsAreIndependent) {
  RepairRounds rounds(2);
  rounds.add(0, {{{1, 2}, {2, 9}}, {{2, {Status::kDeadline, 0, 8}}}, {1}});
  rounds.add(1, {{{1, 1}, {2, 8}}, {}, {}});
  const auto decision = rounds.decide();
  EXPECT_THAT(decision.first, ElementsAre(Pair(1, 1), Pair(2, 9)));
  EXPECT_THAT(decision.failed, ElementsAre(Pair(2, RoundFailure{Status::kDeadline, 0, 8})));
}

TEST(RepairRounds, ContradictoryEntriesDoNotCount) {
  RepairRounds rounds(2);
  // Of tags without an ended round; a success after the last round; and both failed and kept.
  rounds.add(0, {{{1, 0}, {3, 5}},
                 {{1, kDeadlineAt4}, {2, kDeadlineAt4}, {3, {Status::kOk, 0, 9}}},
                 {1, 2, 3}});
  rounds.add(1, {{{3, 4}}, {}, {}});
  const auto decision = rounds.decide();
  EXPECT_THAT(decision.first, ElementsAre(Pair(3, 5)));
  EXPECT_EQ(decision.failed.at(3).succeeded, 4U);
}

}  // namespace
}  // namespace tally::control
