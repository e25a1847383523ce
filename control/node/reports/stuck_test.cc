// What kind of cause a stuck operation has, and who it is.
#include "control/node/reports/stuck.h"

#include <gtest/gtest.h>

namespace tally::control {
namespace {

using nlohmann::json;
using protocol::Cause;
using protocol::Health;
using protocol::Stall;

const std::vector<std::string> kNodes = {"a", "", "c"};

Stall stall(Cause cause, std::vector<std::uint16_t> ranks = {}, std::uint32_t node = 0) {
  Stall stall;
  stall.cause = cause;
  stall.tag = 17;
  stall.round = 5;
  stall.first_notice = stall.since = 10 * kSecond;
  stall.ranks = std::move(ranks);
  stall.node = node;
  return stall;
}

json stuck(std::vector<Stall> stalls) {
  return stuck_json({Health{.stalls = std::move(stalls), .failure = {}}}, kNodes,
                    13'200 * kMillisecond);
}

Health failure(Status status, std::uint16_t culprit, std::uint64_t value = 0) {
  Health health;
  health.failure.emplace();
  health.failure->key.tag = 17;
  health.failure->key.round = 5;
  health.failure->completed = 10 * kSecond;
  health.failure->verdict.status = status;
  health.failure->verdict.culprit = culprit;
  health.failure->verdict.culprit_value = value;
  return health;
}

TEST(Stuck, NamesTheRankInComputeAndItsLatestOperation) {
  Stall one = stall(Cause::kNotAnnounced, {3});
  one.has_last = true;
  one.last_tag = 17;
  one.last_round = 4;
  one.last_notice = 9 * kSecond;
  const json expected = json::array(
      {{{"kind", "in compute"},
        {"who", "rank 3"},
        {"ranks", {3}},
        {"since_ms", 3200},
        {"tag", 17},
        {"round", 5},
        {"text",
         "tag 17 round 5: waiting for rank 3 (last announced: tag 17 round 4, 4.2 s ago)"}}});
  EXPECT_EQ(stuck({one}), expected);
}

TEST(Stuck, NamesSomeOfManyRanks) {
  const json entry = stuck({stall(Cause::kNotJoined, {0, 2, 3, 4, 5, 6})})[0];
  EXPECT_EQ(entry["kind"], "not joined");
  EXPECT_EQ(entry["who"], "ranks 0, 2, 3, 4 and 2 more");
  EXPECT_EQ(entry["ranks"].size(), 6u);
}

TEST(Stuck, NamesNodes) {
  const json below = stuck({stall(Cause::kChildNode, {4}, 3)})[0];
  EXPECT_EQ(below["who"], "node \"c\"");
  EXPECT_EQ(below["node"], "c");
  EXPECT_EQ(below["text"],
            "tag 17 round 5: waiting for node \"c\": not all of rank 4 below it have announced");
  EXPECT_EQ(stuck({stall(Cause::kParentNode, {}, 2)})[0]["who"], "another node");
}

TEST(Stuck, ShardsOfOneOperationMakeOneEntry) {
  Stall other = stall(Cause::kBytes, {1});
  other.since -= kSecond;
  Stall younger = stall(Cause::kNotAnnounced, {2});
  younger.first_notice += 1;
  younger.tag = 18;
  const json list = stuck_json(
      {Health{.stalls = {stall(Cause::kBytes, {3})}, .failure = {}},
       Health{.stalls = {younger}, .failure = {}}, Health{.stalls = {other}, .failure = {}}},
      kNodes, 13 * kSecond);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0]["kind"], "slow path");
  EXPECT_EQ(list[0]["ranks"], json({1, 3}));
  EXPECT_EQ(list[0]["since_ms"], 4000);
}

TEST(Stuck, FailuresHaveTheReasonThatRanksGet) {
  Health mismatch = failure(Status::kMismatch, 3, 100);
  mismatch.failure->verdict.field = wire::Field::kCount;
  mismatch.failure->verdict.witness = 0;
  mismatch.failure->verdict.witness_value = 200;
  const json entry = stuck_json({mismatch}, kNodes, 11 * kSecond)[0];
  EXPECT_EQ(entry["kind"], "mismatch");
  EXPECT_EQ(entry["who"], "rank 3");
  EXPECT_EQ(entry["since_ms"], 1000);
  EXPECT_EQ(entry["text"], "tag 17 round 5: rank 3 announced count 100, rank 0 announced 200");
}

TEST(Stuck, LossesNameTheRankOrTheNode) {
  const auto of = [](const Health& health) { return stuck_json({health}, kNodes, kForever)[0]; };
  const json rank = of(failure(Status::kPeerLost, 3));
  EXPECT_EQ(rank["kind"], "rank lost");
  EXPECT_EQ(rank["who"], "rank 3");
  const json node = of(failure(Status::kPeerLost, wire::kNoRank, 3));
  EXPECT_EQ(node["kind"], "node lost");
  EXPECT_EQ(node["who"], "node \"c\"");
  EXPECT_EQ(of(failure(Status::kDeadline, wire::kNoRank))["who"], "unknown");
}

TEST(Stuck, SuccessAtOneShardEndsFailuresAtAll) {
  Health good;
  good.last_success = 10 * kSecond + 1;
  Health second = failure(Status::kDeadline, 1);
  second.failure->completed += 1;
  EXPECT_EQ(stuck_json({failure(Status::kMismatch, 3), second}, kNodes, kForever)[0]["kind"],
            "mismatch")
      << "the first";
  EXPECT_EQ(stuck_json({failure(Status::kMismatch, 3), second, good}, kNodes, kForever)[0]["kind"],
            "deadline");
  good.last_success += 1;
  EXPECT_TRUE(stuck_json({failure(Status::kMismatch, 3), second, good}, kNodes, kForever).empty());
}

}  // namespace
}  // namespace tally::control
