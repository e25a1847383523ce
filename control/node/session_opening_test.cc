#include "control/node/session_opening.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tally::control {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

json opening_of_rank() {
  return {{"version", 1}, {"job", "train"}, {"ranks", 2}, {"rank", 1}};
}
json opening_of_child_node() {
  return {{"version", 1}, {"job", "train"}, {"ranks", 2},
          {"epoch", 5},   {"lane", 3},      {"child_node", "below"}};
}

TEST(SessionOpening, ReadsARankAndAChildNode) {
  const auto rank = parse_opening(opening_of_rank());
  ASSERT_TRUE(rank.ok()) << rank.error().message;
  EXPECT_EQ(rank->job, "train");
  EXPECT_EQ(rank->rank, 1U);
  EXPECT_EQ(rank->ranks, 2U);
  EXPECT_EQ(rank->epoch, 0U);
  const auto child_node = parse_opening(opening_of_child_node());
  ASSERT_TRUE(child_node.ok()) << child_node.error().message;
  EXPECT_EQ(child_node->child_node, "below");
  EXPECT_EQ(child_node->shard, 3U);
  EXPECT_EQ(child_node->epoch, 5U);
}

TEST(SessionOpening, RefusesAnotherVersionAndARankThatIsNone) {
  json params = opening_of_rank();
  params["version"] = 2;
  EXPECT_EQ(parse_opening(params).error().status, Status::kUnsupported);
  params = opening_of_rank();
  params["rank"] = 2;
  EXPECT_THAT(parse_opening(params).error().message, HasSubstr("rank 2: must be below ranks 2"));
  params = opening_of_child_node();
  params.erase("epoch");
  EXPECT_THAT(parse_opening(params).error().message, HasSubstr("epoch"));
}

TEST(SessionOpening, AClientHasEndpointsWhereItConnectsFromOrWhereTheNodeHasThem) {
  NodeOptions options;
  options.fabric = FabricOffer{.provider = "tcp", .host = "10.0.0.9"};
  options.rails = {{.address = "10.0.1.9"}};
  rpc::Peer client;
  EXPECT_THAT(endpoint_hosts(client, options),
              ElementsAre("0.0.0.0", "::", "10.0.0.9", "10.0.1.9"));
  client.host = "10.0.0.2";
  EXPECT_THAT(endpoint_hosts(client, options), ElementsAre("10.0.0.2"));
}

class OpeningAnswer : public ::testing::Test {
 protected:
  OpeningAnswer() {
    // One rank and one child node; two trees at two shards.
    instance_.members = {0, kNobody};
    instance_.below.push_back({.name = "below", .tcp = {}, .local = {}});
    instance_.shards = {1, 0};
    instance_.plan = protocol::even_partition(2, 1 << 16);
    instance_.vertices = {protocol::star(0, 1), protocol::star(1, 1)};
    session_.instance = &instance_;
    session_.number = 4;
    session_.credit = 28;
    options_.fabric = FabricOffer{.provider = "tcp", .host = "10.0.0.9", .eager_bytes = 512};
    options_.verbs = VerbsOffer{.device = "mlx5_0", .gid = "fe80::1"};
  }
  json answer() { return opening_answer(session_, options_, rails_); }

  JobInstance instance_;
  Session session_;
  NodeOptions options_;
  std::vector<Rail> rails_;
};

TEST_F(OpeningAnswer, HasEagerBytesForARankOnly) {
  json answered = answer();
  EXPECT_EQ(answered["session"], 4);
  EXPECT_EQ(answered["credit"], 28);
  EXPECT_EQ(answered["fabric"]["eager_bytes"], 512);
  EXPECT_EQ(answered["fabric"]["proof"], session_.proof);
  EXPECT_TRUE(answered["verbs"].contains("eager_bytes"));
  session_.member = 1;
  answered = answer();
  EXPECT_FALSE(answered["fabric"].contains("eager_bytes"));
  EXPECT_FALSE(answered["verbs"].contains("eager_bytes"));
}

TEST_F(OpeningAnswer, HasOnlyWhatTheNodeOffers) {
  EXPECT_FALSE(answer().contains("checksums"));
  options_.checksums = true;
  options_.fabric.reset();
  const json answered = answer();
  EXPECT_EQ(answered["checksums"], "crc32c");
  EXPECT_FALSE(answered.contains("fabric"));
}

TEST_F(OpeningAnswer, HasTheHostOfEachShard) {
  EXPECT_FALSE(answer().contains("hosts"));
  rails_ = {{.address = "10.0.0.1"}, {.address = "10.0.1.1"}};
  deal_shards(rails_, 2);
  EXPECT_EQ(answer()["hosts"], (json{"10.0.1.1", "10.0.0.1"}));
}

TEST_F(OpeningAnswer, HasWeightsOnlyWhenEachTreeHasAShardOfItsOwn) {
  EXPECT_TRUE(answer().contains("weights"));
  instance_.shards = {0};
  EXPECT_FALSE(answer().contains("weights"));
}

}  // namespace
}  // namespace tally::control
