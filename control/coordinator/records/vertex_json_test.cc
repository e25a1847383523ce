#include "control/coordinator/records/vertex_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

namespace tally::control {
namespace {

using nlohmann::json;
using protocol::Vertex;

// Of 6 ranks: a root of rank 0, and ranks 3..5 and 1, 2 below its child nodes; an inner vertex.
std::vector<Vertex> two() {
  Vertex root;
  root.tree = 2;
  root.height = 3;
  root.ranks = {0};
  root.child_nodes = {{0, {3, 4, 5}}, {2, {1, 2}}};
  Vertex inner;
  inner.tree = 5;
  inner.ranks = {1, 3, 4};
  inner.parent = 1;
  return {root, inner};
}

VertexBounds bounds() {
  return {.trees = {2, 5}, .ranks = 6, .below = 3, .above = 2};
}

TEST(VertexJson, VerticesAreReadAsTheyWereWritten) {
  const json sent = json::parse(to_json(two()).dump());
  EXPECT_EQ(sent[1]["ranks"], json::parse("[[1,1],[3,2]]")) << "runs";
  const auto there = parse_vertices(sent, bounds());
  ASSERT_TRUE(there);
  EXPECT_EQ(*there, two());
}

// It is that of the sum; numbers are the node's own.
TEST(VertexJson, ChildNodesKeepTheirOrder) {
  auto turned = two();
  std::reverse(turned[0].child_nodes.begin(), turned[0].child_nodes.end());
  const auto there = parse_vertices(to_json(turned), bounds());
  ASSERT_TRUE(there);
  EXPECT_EQ(*there, turned);
}

TEST(VertexJson, RecognisesStarsOfAllRanks) {
  EXPECT_TRUE(all_stars({protocol::star(0, 4), protocol::star(1, 4)}, 4));
  EXPECT_FALSE(all_stars({protocol::star(0, 4)}, 5));
  EXPECT_FALSE(all_stars(two(), 6));
}

TEST(VertexJson, RanksThatAreLeftOutAreInNoVertex) {
  Vertex star = protocol::star(2, 6);
  star.ranks = {0, 1, 3, 4, 5};
  VertexBounds without{.trees = {2}, .ranks = 6, .left_out = {2}};
  EXPECT_EQ(parse_vertices(to_json({star}), without), std::vector{star});
  EXPECT_FALSE(parse_vertices(to_json({protocol::star(2, 6)}), without));
  without.left_out = {};
  EXPECT_FALSE(parse_vertices(to_json({star}), without)) << "rank 2 is missing";
}

TEST(VertexJson, RefusesListsThatAreNoVertices) {
  const auto wrong = [](const char* pointer, json value) {
    json sent = to_json(two());
    sent[json::json_pointer(pointer)] = std::move(value);
    return !parse_vertices(sent, bounds());
  };
  EXPECT_FALSE(wrong("/0/else", "a later release may send more"));
  EXPECT_FALSE(parse_vertices(json(1), bounds()));
  EXPECT_FALSE(parse_vertices(json::array(), bounds())) << "one of each tree";
  EXPECT_TRUE(wrong("/0", 7));
  EXPECT_TRUE(wrong("/0/tree", 3));
  EXPECT_TRUE(wrong("/0/tree", "2"));
  EXPECT_TRUE(wrong("/0/height", 1)) << "it has child nodes";
  EXPECT_TRUE(wrong("/0/height", 256));
  EXPECT_TRUE(wrong("/1/height", 2)) << "it has none";
  EXPECT_TRUE(wrong("/0/ranks", json::array())) << "a root without rank 0";
  EXPECT_TRUE(wrong("/0/ranks", json::parse("[[0,2]]"))) << "rank 1 twice";
  EXPECT_TRUE(wrong("/0/ranks", json::parse("[[0,7]]")));
  EXPECT_TRUE(wrong("/0/ranks", json::parse("[[6,1]]")));
  EXPECT_TRUE(wrong("/0/ranks", json::parse("[[0]]")));
  EXPECT_TRUE(wrong("/0/ranks", json::parse("[[0,0]]")));
  EXPECT_TRUE(wrong("/0/ranks", json::parse("[[0,4294967296]]")));
  EXPECT_TRUE(wrong("/1/ranks", json::parse("[[3,2],[1,1]]"))) << "rising";
  EXPECT_TRUE(wrong("/1/ranks", json::array())) << "no children";
  EXPECT_TRUE(wrong("/1/parent", 2));
  EXPECT_TRUE(wrong("/1/parent", -1));
  EXPECT_TRUE(wrong("/0/child_nodes", 1));
  EXPECT_TRUE(wrong("/0/child_nodes/0", 1));
  EXPECT_TRUE(wrong("/0/child_nodes/1/number", 0)) << "twice";
  EXPECT_TRUE(wrong("/0/child_nodes/1/number", 3));
  EXPECT_TRUE(wrong("/0/child_nodes/1/ranks", json::array()));
  VertexBounds alone = bounds();
  alone.below = alone.above = 0;
  EXPECT_FALSE(parse_vertices(to_json(two()), alone));
}

TEST(VertexJson, MutatedListsAreReadOrRefused) {
  std::mt19937_64 random(3);
  const std::string good = to_json(two()).dump();
  for (int trial = 0; trial < 3000; ++trial) {
    std::string text = good;
    for (std::size_t changes = 1 + random() % 3; changes > 0; --changes) {
      text[random() % text.size()] = "0123456789[]{},\"-."[random() % 18];
    }
    const json sent = json::parse(text, nullptr, false);
    if (sent.is_discarded()) continue;
    const auto read = parse_vertices(sent, bounds());
    if (!read) continue;
    for (const Vertex& vertex : *read) ASSERT_GT(vertex.children(), 0U);
  }
}

}  // namespace
}  // namespace tally::control
