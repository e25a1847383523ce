#include "control/coordinator/records/rank_loss.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tally::control {
namespace {

using nlohmann::json;

TEST(RankLoss, OnlyFinishGoesOnAndOnlyWithTheQuorum) {
  EXPECT_FALSE(RankLossPolicy{}.may_go_on(7));
  const RankLossPolicy any{.finishes = true};
  EXPECT_TRUE(any.may_go_on(1));
  EXPECT_FALSE(any.may_go_on(0));
  const RankLossPolicy six{.finishes = true, .quorum = 6};
  EXPECT_TRUE(six.may_go_on(6));
  EXPECT_FALSE(six.may_go_on(5));
}

TEST(RankLoss, JsonKeepsWhatIsNotTheDefault) {
  json object = json::object();
  put_rank_loss(object, {}, {});
  EXPECT_EQ(object, json::object());
  EXPECT_EQ(find_policy(object, 4), RankLossPolicy{});
  EXPECT_EQ(find_left_out(object, 4), RankNumbers{});
  const RankLossPolicy policy{.finishes = true, .quorum = 3};
  put_rank_loss(object, policy, {1, 3});
  EXPECT_EQ(object, json::parse(R"({"on_rank_loss":"finish","quorum":3,"left_out":[1,3]})"));
  EXPECT_EQ(find_policy(object, 4), policy);
  EXPECT_EQ(find_left_out(object, 4), RankNumbers({1, 3}));
}

TEST(RankLoss, JsonOfAnotherJobIsRefused) {
  for (const char* text :
       {R"({"on_rank_loss":"perhaps"})", R"({"on_rank_loss":1})",
        R"({"on_rank_loss":"finish","quorum":5})", R"({"on_rank_loss":"finish","quorum":-1})"}) {
    EXPECT_FALSE(find_policy(json::parse(text), 4)) << text;
  }
  for (const char* text : {R"({"left_out":[4]})", R"({"left_out":[-1]})", R"({"left_out":3})",
                           R"({"left_out":[0,1,2,3]})", R"({"left_out":["0"]})"}) {
    EXPECT_FALSE(find_left_out(json::parse(text), 4)) << text;
  }
}

}  // namespace
}  // namespace tally::control
