#include "net/rpc/partition_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tally::rpc {
namespace {

using nlohmann::json;
using protocol::kAnySize;
using protocol::Partition;

Partition three_classes() {
  return {3,
          {{4095, false, {2}, {65536}},
           {65535, false, {0, 1}, {60000, 5536}},
           {kAnySize, true, {0, 1, 2}, {20000, 20000, 25536}}},
          {{17, 4096, 2}, {UINT32_MAX, 1ULL << 40, 0}}};
}

json sent(const Partition& plan) {
  json object = {{"else", 1}};
  put_partition(object, plan);
  put_weights(object, plan);
  return json::parse(object.dump());
}

TEST(CutJson, APlanTravels) {
  for (const Partition& plan :
       {three_classes(), protocol::even_partition(7, 1 << 20), protocol::even_partition(1, 0),
        protocol::even_partition(256, 4096)}) {
    EXPECT_EQ(find_partition(sent(plan)), plan);
  }
}

TEST(CutJson, ResultTreesTravelInPairs) {
  Partition plan = three_classes();
  plan.trees = 5;
  plan.result_trees = {4, protocol::kNoTree, 3, protocol::kNoTree, protocol::kNoTree};
  EXPECT_EQ(find_partition(sent(plan)), plan);
  EXPECT_EQ(sent(plan)["plan"]["classes"][2]["trees"].dump(), "[[0,4],1,[2,3]]");
  EXPECT_FALSE(sent(plan).contains("weights"));
  json other = sent(plan);
  other["plan"]["classes"][0]["trees"][0] = {2, 4};
  EXPECT_FALSE(find_partition(other)) << "two classes disagree";
  for (const json& pair :
       {json({2}), json({2, 3, 4}), json({2, "3"}), json({9, 3}), json({2, 5})}) {
    json bad = sent(plan);
    for (json& one : bad["plan"]["classes"]) one["trees"].back() = pair;
    EXPECT_FALSE(find_partition(bad)) << pair;
  }
}

// A version that cannot cut in order reads true or false and refuses the rest.
TEST(CutJson, AnOrderTravelsInPlaceOfTrue) {
  Partition plan = protocol::even_partition(3, 0);
  plan.classes[0].in_order = true;
  EXPECT_EQ(find_partition(sent(plan)), plan);
  EXPECT_EQ(sent(plan)["plan"]["classes"][0]["divided"], "in order");
  EXPECT_FALSE(sent(plan).contains("weights"));
}

TEST(CutJson, ThePreviousVersionGetsWhatItCanRead) {
  const Partition plan = protocol::weighted_partition({10000, 50000, 5536}, 1 << 16);
  json old = sent(plan);
  EXPECT_EQ(old["weights"], json::array({10000, 50000, 5536}));
  EXPECT_EQ(old["split_bytes"], 1 << 16);
  old.erase("plan");
  EXPECT_EQ(find_partition(old), plan);
  EXPECT_EQ(sent(protocol::even_partition(2, 0))["split_bytes"], 0);
  // Neither more classes, nor a size that is no whole number of every type's elements, nor a tree
  // without a share: its parts would be counted otherwise.
  EXPECT_FALSE(sent(three_classes()).contains("weights"));
  EXPECT_FALSE(sent(protocol::even_partition(2, 4097)).contains("weights"));
  EXPECT_FALSE(sent(protocol::weighted_partition({65536, 0}, 4096)).contains("weights"));
  Partition homes = plan;
  homes.homes = {{1, 4, 0}};
  EXPECT_FALSE(sent(homes).contains("weights"));
  EXPECT_FALSE(sent({2, {{kAnySize, false, {0, 1}, {32768, 32768}}}}).contains("weights"));
}

TEST(CutJson, WhatIsNoPlanIsNone) {
  for (const char* text :
       {"1", "[]", "{}", R"({"weights":[65536]})", R"({"split_bytes":4096})",
        R"({"weights":[65535],"split_bytes":0})", R"({"weights":[-1,65537],"split_bytes":0})",
        R"({"weights":["65536"],"split_bytes":0})", R"({"weights":[65536],"split_bytes":-1})",
        R"({"plan":[]})"}) {
    EXPECT_FALSE(find_partition(json::parse(text))) << text;
  }
  const auto wrong = [](const char* pointer, json value) {
    json object = sent(three_classes());
    object[json::json_pointer(pointer)] = std::move(value);
    return !find_partition(object);
  };
  EXPECT_FALSE(wrong("/else", 2));
  EXPECT_TRUE(wrong("/plan/trees", 2));
  EXPECT_TRUE(wrong("/plan/trees", 1e9));
  EXPECT_TRUE(wrong("/plan/trees", 4294967299));
  EXPECT_TRUE(wrong("/plan/classes", 7));
  EXPECT_TRUE(wrong("/plan/classes", json::array()));
  EXPECT_TRUE(wrong("/plan/classes", json(std::vector<int>(65, 1))));
  EXPECT_TRUE(wrong("/plan/classes/0", json::array()));
  EXPECT_TRUE(wrong("/plan/classes/0/max_bytes", -1));
  EXPECT_TRUE(wrong("/plan/classes/0/max_bytes", 70000));
  EXPECT_TRUE(wrong("/plan/classes/2/max_bytes", 70000));
  EXPECT_TRUE(wrong("/plan/classes/0/divided", 1));
  EXPECT_TRUE(wrong("/plan/classes/0/divided", "order"));
  EXPECT_TRUE(wrong("/plan/classes/0/trees", json::array({0.5})));
  EXPECT_TRUE(wrong("/plan/classes/0/weights", json::array({65535})));
  EXPECT_TRUE(wrong("/plan/classes/0/weights", "65536"));
  EXPECT_TRUE(wrong("/plan/homes", 1));
  EXPECT_TRUE(wrong("/plan/homes/0", json::array({1, 2})));
  EXPECT_TRUE(wrong("/plan/homes/0", json::array({1, 2, 3})));
  EXPECT_TRUE(wrong("/plan/homes/0", json::array({1, -2, 0})));
  EXPECT_TRUE(wrong("/plan/homes/0", json::array({1ULL << 32, 2, 0})));
}

}  // namespace
}  // namespace tally::rpc
