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

}  // namespace
}  // namespace tally::control
