#include "control/node/endpoints/client_ends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tally::control {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

json end(const char* name, std::vector<std::uint32_t> shards) {
  return {{"name", name}, {"secret", 7}, {"lanes", std::move(shards)}};
}
json of_rails(json rails) {
  return {{"transport", "fabric"}, {"rails", std::move(rails)}};
}

// As clients with one NIC send it.
TEST(ClientEnds, OneIsForAllShards) {
  const auto ends = parse_ends(
      {{"transport", "fabric"}, {"name", "ab01"}, {"secret", 7}, {"eager_bytes", 8192}}, 3);
  ASSERT_TRUE(ends.ok()) << ends.error().message;
  ASSERT_EQ(ends->size(), 3u);
  EXPECT_EQ((*ends)[2].shard, 2u);
  EXPECT_EQ((*ends)[2].secret, 7u);
  EXPECT_EQ((*ends)[2].eager_bytes, 8192u);
  EXPECT_EQ(transport::fabric::to_hex((*ends)[2].name), "ab01");
}

// Each counts its shards from 0.
TEST(ClientEnds, SeveralHaveTheirShards) {
  const auto ends = parse_ends(of_rails({end("aa", {0, 2}), end("bb", {3, 1})}), 4);
  ASSERT_TRUE(ends.ok()) << ends.error().message;
  std::vector<std::string> names;
  std::vector<std::uint32_t> shards;
  for (const ClientEnd& one : *ends) {
    names.push_back(transport::fabric::to_hex(one.name));
    shards.push_back(one.shard);
  }
  EXPECT_THAT(names, ElementsAre("aa", "bb", "aa", "bb"));
  EXPECT_THAT(shards, ElementsAre(0, 1, 1, 0));
}

TEST(ClientEnds, EachShardHasOne) {
  const json fine = end("aa", {0, 1});
  for (const json& rails :
       {json(), json(5), json::array(), json::array({5}), json::array({end("aa", {0})}),
        json::array({fine, end("bb", {1})}), json::array({end("aa", {0, 2})}),
        json::array({end("aa", {0, 0})}), json::array({fine, end("bb", {})}),
        json::array({end("x", {0, 1})}), json::array({end("", {0, 1})})}) {
    EXPECT_EQ(parse_ends(of_rails(rails), 2).status(), Status::kInvalidArgument) << rails;
  }
  json more = of_rails(json::array({fine}));
  more["name"] = "aa";
  EXPECT_FALSE(parse_ends(more, 2).ok()) << "one or the other";
  json unknown = fine;
  unknown["colour"] = 1;
  EXPECT_THAT(parse_ends(of_rails(json::array({unknown})), 2).error().message, HasSubstr("colour"));
}

TEST(ClientEnds, KeysAreByShard) {
  EXPECT_THAT(*parse_keys({{"key", 5}}, 5, 3), ElementsAre(5, 5, 5));
  EXPECT_THAT(*parse_keys(json::parse(R"({"keys": [1, 2, 3]})"), 5, 3), ElementsAre(1, 2, 3));
  for (const json& keys : {json(), json(1), json::array({1, 2}), json::array({1, 2, -3}),
                           json::array({1, 2, "3"}), json::array({1, 2, 3, 4})}) {
    EXPECT_THAT(parse_keys({{"keys", keys}}, 5, 3).error().message, HasSubstr("list of 3 numbers"));
  }
}

}  // namespace
}  // namespace tally::control
