#include "client/operations/plan_switch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::client {
namespace {

using ::testing::ElementsAre;
using By = PlanSwitch::By;
using Stage = PlanSwitch::Stage;

PlanSwitch knowing() {
  PlanSwitch plans;
  plans.hold();
  plans.know({{7, 3}, {8, 1}, {9, 2}});
  return plans;
}

TEST(PlanSwitch, HoldsUntilAllKnow) {
  PlanSwitch plans;
  EXPECT_EQ(plans.carrier(7, 100), By::kNew);
  plans.know({{7, 3}});  // without having held
  EXPECT_EQ(plans.stage(), Stage::kSteady);
  plans.hold();
  EXPECT_EQ(plans.carrier(7, 2), By::kNone);
  plans.go({});  // without a decision
  EXPECT_EQ(plans.stage(), Stage::kHolding);
  plans.know({{7, 3}});
  EXPECT_EQ(plans.carrier(7, 2), By::kNone);
  plans.go({{7, 2}});
  EXPECT_EQ(plans.carrier(7, 2), By::kOld);
  EXPECT_EQ(plans.carrier(7, 3), By::kNew);
  EXPECT_EQ(plans.carrier(1, 0), By::kNew) << "a tag that nobody knew";
}

TEST(PlanSwitch, IsPastAfterThePostsOfTheOldVersion) {
  PlanSwitch plans = knowing();
  plans.go({{7, 2}, {9, 2}});
  EXPECT_THAT(plans.behind(), ElementsAre(7, 8));
  plans.posted(7, 2);
  plans.posted(9, 2);
  EXPECT_FALSE(plans.is_past());
  plans.posted(8, 0);
  EXPECT_TRUE(plans.is_past());
  plans.finish();
  EXPECT_EQ(plans.carrier(7, 1), By::kNew) << "there is no other version";
}

TEST(PlanSwitch, WithoutACoordinatorOnlyARankThatKnowsTheDecisionIsInDoubt) {
  PlanSwitch plans;
  EXPECT_TRUE(plans.go_on_alone());
  plans.hold();
  EXPECT_TRUE(plans.go_on_alone());
  EXPECT_EQ(plans.carrier(7, 2), By::kNew);
  plans = knowing();
  EXPECT_FALSE(plans.go_on_alone());
  plans.call_off();
  EXPECT_EQ(plans.carrier(7, 9), By::kNew);
  plans = knowing();
  plans.go({{7, 3}});
  EXPECT_TRUE(plans.go_on_alone());
  plans.call_off();  // too late
  EXPECT_EQ(plans.carrier(7, 3), By::kNew);
}

}  // namespace
}  // namespace tally::client
