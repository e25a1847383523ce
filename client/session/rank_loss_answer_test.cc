#include "client/session/rank_loss_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tally::client {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

SessionOptions rank_2_of_6(RankLoss policy) {
  SessionOptions options;
  options.job = "train";
  options.rank = 2;
  options.ranks = 6;
  options.on_rank_loss = policy;
  return options;
}

json finishing(const json& left_out) {
  return {{"on_rank_loss", "finish"}, {"left_out", left_out}};
}

TEST(RankLossAnswer, OnlyARankThatGoesOnAsksForAPolicy) {
  SessionOptions options = rank_2_of_6(RankLoss::kFail);
  options.quorum = 3;
  json params = json::object();
  ask_for_policy(options, params);
  EXPECT_EQ(params, json::object()) << "as older releases";
  options.on_rank_loss = RankLoss::kFinish;
  ask_for_policy(options, params);
  EXPECT_EQ(params, (json{{"on_rank_loss", "finish"}, {"quorum", 3U}}));
  options.quorum = 0;
  params = json::object();
  ask_for_policy(options, params);
  EXPECT_EQ(params, (json{{"on_rank_loss", "finish"}}));
}

TEST(RankLossAnswer, HasTheRanksAndTheFirstRounds) {
  const SessionOptions options = rank_2_of_6(RankLoss::kFinish);
  const auto none = read_rank_loss(options, {{"on_rank_loss", "finish"}});
  ASSERT_TRUE(none.ok()) << none.error().message;
  EXPECT_TRUE(none->left_out.empty());
  EXPECT_TRUE(none->first.empty());
  json answer = finishing({0U, 3U, 5U});
  answer["first"] = json::array({{7U, 4U}, {4294967295U, 1U}});
  const auto some = read_rank_loss(options, answer);
  ASSERT_TRUE(some.ok()) << some.error().message;
  EXPECT_EQ(some->left_out, (std::vector<std::uint16_t>{0, 3, 5}));
  EXPECT_EQ(some->first, (std::map<std::uint32_t, std::uint32_t>{{7, 4}, {4294967295U, 1}}));
}

TEST(RankLossAnswer, RefusesAJobThatEndsWithARank) {
  const SessionOptions options = rank_2_of_6(RankLoss::kFinish);
  for (const json& answer : {json::object(), json{{"on_rank_loss", "fail"}}}) {
    const auto refused = read_rank_loss(options, answer);
    EXPECT_EQ(refused.status(), Status::kUnsupported) << answer;
    EXPECT_THAT(refused.error().message,
                AllOf(HasSubstr("job \"train\""), HasSubstr("coordinator"), HasSubstr("fail")));
  }
}

TEST(RankLossAnswer, AnOlderCoordinatorDoesNotKnowThePolicy) {
  const Error unknown{Status::kInvalidArgument, "parameter \"on_rank_loss\" is unknown: ..."};
  const Error other{Status::kInvalidArgument, "parameter \"quorum\" is 9"};
  EXPECT_EQ(refusal_of(rank_2_of_6(RankLoss::kFinish), unknown).status, Status::kUnsupported);
  EXPECT_EQ(refusal_of(rank_2_of_6(RankLoss::kFinish), other).message, other.message);
}

TEST(RankLossAnswer, RefusesRanksThatCannotBeLeftOut) {
  const SessionOptions options = rank_2_of_6(RankLoss::kFinish);
  for (const json& wrong :
       {json::array({6U}), json::array({65536U}), json::array({-1}), json::array({3U, 3U}),
        json::array({4U, 3U}), json::array({2U}), json::array({1.5}), json::array({"1"}), json(3U),
        json{{"1", 1U}}, json::array({4294967297U}), json::array({json::array({1U})})}) {
    EXPECT_EQ(read_rank_loss(options, finishing(wrong)).status(), Status::kProtocol) << wrong;
    EXPECT_FALSE(read_left_out({{"left_out", wrong}}, 2, 6)) << wrong;
  }
  for (const json& wrong : {json(true), json(1), json("go on"), json::array({"finish"})}) {
    EXPECT_EQ(read_rank_loss(options, {{"on_rank_loss", wrong}}).status(), Status::kProtocol)
        << wrong;
  }
}

TEST(RankLossAnswer, RefusesFirstRoundsThatAreNone) {
  const SessionOptions options = rank_2_of_6(RankLoss::kFinish);
  for (const json& wrong :
       {json(1U), json::array({1U}), json::array({json::array({1U})}), json::array({{1U, 2U, 3U}}),
        json::array({{1U, -2}}), json::array({{4294967296U, 1U}}), json::array({{1U, "2"}})}) {
    json answer = finishing(json::array());
    answer["first"] = wrong;
    EXPECT_EQ(read_rank_loss(options, answer).status(), Status::kProtocol) << wrong;
  }
}

TEST(RankLossAnswer, RefusesLeftOutRanksInAJobThatEndsWithARank) {
  const SessionOptions options = rank_2_of_6(RankLoss::kFail);
  EXPECT_TRUE(read_rank_loss(options, json::object()).ok());
  EXPECT_EQ(read_rank_loss(options, finishing({1U})).status(), Status::kProtocol);
  EXPECT_EQ(read_rank_loss(options, {{"left_out", {1U}}}).status(), Status::kProtocol);
}

}  // namespace
}  // namespace tally::client
