#include "control/coordinator/records/rails.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "dataplane/partition/partition.h"

namespace tally::control {
namespace {

using nlohmann::json;
using protocol::kWeightUnit;
using ::testing::ElementsAre;

// Of so many shards.
std::vector<Rail> rails(std::vector<std::uint64_t> speeds, std::uint32_t shards) {
  std::vector<Rail> made;
  for (const std::uint64_t speed : speeds) {
    made.push_back({.address = "10.0.0." + std::to_string(made.size()), .speed = speed});
  }
  deal_shards(made, shards);
  return made;
}

std::vector<std::uint32_t> weights(const std::vector<RailTree>& trees) {
  std::vector<std::uint32_t> made;
  for (const RailTree& tree : trees) made.push_back(tree.weight);
  return made;
}
std::vector<std::uint32_t> numbers(const std::vector<RailTree>& trees) {
  std::vector<std::uint32_t> made;
  for (const RailTree& tree : trees) made.push_back(tree.rail);
  return made;
}

TEST(Rails, ShareTheShards) {
  const auto three = rails({1, 1, 1}, 8);
  EXPECT_EQ(three[0].shards, 3u);
  EXPECT_EQ(three[1].shards, 3u);
  EXPECT_EQ(three[2].shards, 2u);
  EXPECT_EQ(rail_of(4, three), 1u);
}

// Rails are numbered alike on all machines, so it keeps its number.
TEST(Rails, ARailThatIsDownAtTheStartHasNoShards) {
  auto three = rails({1, 1, 1}, 0);
  three[0].up = false;
  deal_shards(three, 4);
  EXPECT_EQ(three[0].shards, 0u);
  EXPECT_EQ(three[1].shards, 2u);
  EXPECT_EQ(rail_of(0, three), 1u);
  EXPECT_EQ(rail_of(3, three), 2u);
  EXPECT_THAT(rails_in_use(three), ElementsAre(1, 2));
  three[1].up = three[2].up = false;
  EXPECT_THAT(rails_in_use(three), ElementsAre(1, 2));
}

TEST(Rails, WithoutRailsAShareIsCutEvenly) {
  EXPECT_THAT(weights(over_rails({}, 3, 100)), ElementsAre(34, 33, 33));
  EXPECT_THAT(numbers(over_rails({}, 3, 100)), ElementsAre(0, 0, 0));
  EXPECT_EQ(usable_shards({}, 5), 5u);
}

TEST(Rails, AShareIsCutBySpeed) {
  const auto trees = over_rails(rails({300, 100}, 4), 4, 4000);
  EXPECT_THAT(numbers(trees), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(weights(trees), ElementsAre(1500, 1500, 500, 500));
}

// However many shards each has.
TEST(Rails, EqualRailsHaveEqualShares) {
  const auto trees = over_rails(rails({0, 0}, 3), 3, 4000);
  EXPECT_THAT(numbers(trees), ElementsAre(0, 0, 1));
  EXPECT_THAT(weights(trees), ElementsAre(1000, 1000, 2000));
  EXPECT_THAT(weights(over_rails(rails({100, 0}, 2), 2, 4000)), ElementsAre(2000, 2000));
}

TEST(Rails, TheCutsAddUpToTheShare) {
  for (const std::uint32_t share : {1u, 7u, 4097u, kWeightUnit}) {
    for (const std::uint32_t trees : {1u, 2u, 5u, 8u}) {
      const auto all = weights(over_rails(rails({7, 3, 0}, 8), trees, share));
      EXPECT_EQ(all.size(), trees);
      EXPECT_EQ(std::accumulate(all.begin(), all.end(), 0u), share);
    }
  }
}

TEST(Rails, ARailThatIsDownCarriesNothing) {
  auto two = rails({300, 100}, 4);
  two[0].up = false;
  EXPECT_EQ(usable_shards(two, 4), 2u);
  EXPECT_EQ(speed_of(two), 100u);
  EXPECT_THAT(numbers(over_rails(two, 2, 4000)), ElementsAre(1, 1));
  EXPECT_THAT(weights(over_rails(two, 2, 4000)), ElementsAre(2000, 2000));
  two[1].up = false;  // clients of this host are served all the same
  EXPECT_EQ(usable_shards(two, 4), 4u);
  EXPECT_EQ(speed_of(two), 400u);
}

TEST(Rails, FewTreesUseTheFastestRails) {
  EXPECT_THAT(numbers(over_rails(rails({100, 400, 200}, 3), 2, 600)), ElementsAre(1, 2));
  EXPECT_THAT(weights(over_rails(rails({100, 400, 200}, 3), 2, 600)), ElementsAre(400, 200));
}

TEST(Rails, SpeedsAddUp) {
  EXPECT_EQ(speed_of(rails({300, 100}, 2)), 400u);
  EXPECT_EQ(speed_of(rails({300, 0}, 2)), 600u) << "an unknown one is as the others";
  EXPECT_EQ(speed_of(rails({0, 0}, 2)), 0u);
}

TEST(Rails, AreReadAsTheyWereWrittenAndChecked) {
  auto sent = rails({300, 100}, 4);
  sent[1].up = false;
  sent[1].tcp = "tcp:10.0.0.1:7733";
  EXPECT_EQ(parse_rails(to_json(sent)), sent);
  const auto spoilt = [&](const char* key, const json& value) {
    json wrong = to_json(sent);
    wrong[0][key] = value;
    return wrong;
  };
  for (const json& wrong :
       {json(), json::object(), json::array({1}), spoilt("shards", 300), spoilt("speed", -1),
        spoilt("up", 1), spoilt("other", 1), spoilt("address", 5)}) {
    EXPECT_FALSE(parse_rails(wrong)) << wrong;
  }
  json none = to_json(sent);
  none[0]["shards"] = none[1]["shards"] = 0;
  EXPECT_FALSE(parse_rails(none)) << "of no use";
  json many = json::array();
  for (std::size_t i = 0; i <= kMaxRails; ++i) many.push_back(to_json(sent)[0]);
  EXPECT_FALSE(parse_rails(many));
}

}  // namespace
}  // namespace tally::control
