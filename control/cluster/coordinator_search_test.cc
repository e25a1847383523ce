#include "control/cluster/coordinator_search.h"

#include <gtest/gtest.h>

#include <vector>

namespace tally::control {
namespace {

using Answers = std::vector<CoordinatorAnswer>;

constexpr CoordinatorAnswer kNoAnswer{};
constexpr CoordinatorAnswer kSelf{true, true, false, true};
constexpr CoordinatorAnswer kElecting{true, false, false, true};
constexpr CoordinatorAnswer kIdle{true, false, false, false};  // there, and has no members
constexpr CoordinatorAnswer kServes{true, false, true, false};

std::optional<std::size_t> joins(const Answers& answers, bool patient = true) {
  return choose_coordinator(answers, patient).join;
}

TEST(CoordinatorSearch, PrefersACoordinatorWithMembers) {
  EXPECT_EQ(joins({kSelf, kServes}), 1u) << "the first of the list has come back";
  EXPECT_EQ(joins({kElecting, kSelf, kServes}), 2u);
  EXPECT_EQ(joins({kNoAnswer, kServes, kServes}), 1u);
}

TEST(CoordinatorSearch, ChoosesItselfWhenNoOtherAnswers) {
  EXPECT_EQ(joins({kSelf, kNoAnswer}), 0u);
  EXPECT_EQ(joins({kNoAnswer, kSelf}), 1u);
  EXPECT_EQ(joins({kNoAnswer, kNoAnswer}), std::nullopt);
}

TEST(CoordinatorSearch, OfTwoElectingNodesTheLaterStepsAside) {
  const auto later = choose_coordinator(Answers{kElecting, kSelf}, true);
  EXPECT_EQ(later.join, std::nullopt);
  EXPECT_TRUE(later.step_aside);
  const auto first = choose_coordinator(Answers{kSelf, kElecting}, true);
  EXPECT_EQ(first.join, std::nullopt) << "the other may not know of it yet";
  EXPECT_FALSE(first.step_aside);
  EXPECT_EQ(joins({kSelf, kElecting}, false), 0u);
  EXPECT_EQ(joins({kSelf, kIdle}), 0u) << "it has stepped aside";
}

TEST(CoordinatorSearch, ANodeOutsideTheListWaitsForListedNodes) {
  EXPECT_EQ(joins({kElecting, kNoAnswer}), std::nullopt);
  EXPECT_EQ(joins({kElecting, kNoAnswer}, false), std::nullopt) << "it would be two services";
  EXPECT_EQ(joins({kNoAnswer, kIdle}), 1u);
}

constexpr CoordinatorAnswer elected(std::uint64_t term) {
  return {true, false, term > 0, false, term};
}

TEST(CoordinatorSearch, JoinsTheElectedNodeWithTheHighestTerm) {
  EXPECT_EQ(joins({elected(0), elected(7), elected(9)}), 2u) << "7 has been stopped and goes on";
  EXPECT_EQ(joins({elected(9), elected(0), elected(7)}), 0u);
  EXPECT_EQ(joins({elected(0), kNoAnswer, elected(0)}), std::nullopt) << "none acts yet";
}

TEST(CoordinatorSearch, JoinsNoTermBelowTheHighestThatItKnows) {
  EXPECT_EQ(choose_coordinator(Answers{elected(7), elected(0)}, false, 8).join, std::nullopt);
  EXPECT_EQ(choose_coordinator(Answers{elected(7), elected(8)}, false, 8).join, 1u);
  EXPECT_EQ(choose_coordinator(Answers{kServes, kSelf}, false, 8).join, std::nullopt)
      << "a coordinator without a term counts as 0";
}

}  // namespace
}  // namespace tally::control
