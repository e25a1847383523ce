#include "control/coordinator/layout/substitutes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/plan/model/validate.h"
#include "tests/support/control/layout_fixture.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Ranks = std::vector<std::uint16_t>;

// Workers w0, w1; stars at h0 (weights 5), h1 (2) and h2 (1).
MachinePlan three_stars() {
  MachinePlan plan = machines(2, 3);
  add_class(plan, {},
            {{40960, {2, 2, -1, -2, -2}, {}},
             {16384, {3, 3, -2, -1, -2}, {}},
             {8192, {4, 4, -2, -2, -1}, {}}});
  return plan;
}

std::vector<std::string> seats(const MachinePlan& plan, const Members& known) {
  const auto found = find_seats(plan, trees_of(plan), known);
  EXPECT_TRUE(found.ok()) << found.error().message;
  std::vector<std::string> names;
  for (const auto& tree : found->by_tree) {
    std::string all;
    for (const auto& [id, node] : tree) all += (all.empty() ? "" : " ") + known.at(node).name;
    names.push_back(all);
  }
  return names;
}

TEST(Substitutes, TheNodeWithTheSmallestLoadIsTheSubstitute) {
  const MachinePlan plan = three_stars();
  Members all = members({"h0", "h1", "h2"});
  EXPECT_THAT(seats(plan, all), ElementsAre("h0", "h1", "h2"));
  all.at(1).draining = true;
  EXPECT_THAT(seats(plan, all), ElementsAre("h2", "h1", "h2"));
  all.at(1).draining = false;
  all.at(3).draining = true;
  EXPECT_THAT(seats(plan, all), ElementsAre("h0", "h1", "h1"));
  all.at(2).draining = true;
  EXPECT_THAT(seats(plan, all), ElementsAre("h0", "h0", "h0"));
}

TEST(Substitutes, EarlierSubstitutionsCountAsLoad) {
  MachinePlan plan = machines(2, 4);
  add_class(plan, {},
            {{16384, {2, 2, -1, -2, -2, -2}, {}},
             {16384, {3, 3, -2, -1, -2, -2}, {}},
             {16384, {4, 4, -2, -2, -1, -2}, {}},
             {16384, {5, 5, -2, -2, -2, -1}, {}}});
  Members all = members({"h0", "h1", "h2", "h3"});
  all.at(1).draining = all.at(2).draining = true;
  EXPECT_THAT(seats(plan, all), ElementsAre("h2", "h3", "h2", "h3"));
  // One that the plan does not know has nothing to carry; the lowest number first among equals.
  all[9] = member_named("y");
  all[8] = member_named("x");
  EXPECT_THAT(seats(plan, all), ElementsAre("x", "y", "h2", "h3"));
}

TEST(Substitutes, TheLeafOfAWorkerCountsAsLoad) {
  MachinePlan plan = three_stars();
  Members all = members({"w0", "h0", "x"});
  all[4] = member_named("h1");
  all[5] = member_named("h2");
  all.at(5).draining = true;
  EXPECT_THAT(seats(plan, all), ElementsAre("h0", "h1", "x"));
  all.at(3).draining = true;
  // w0 has all of its own gradient to send; h1 a quarter of two.
  EXPECT_THAT(seats(plan, all), ElementsAre("h0", "h1", "h1"));
}

TEST(Substitutes, NoNodeThatSumsInTheSameTreeIsASubstitute) {
  MachinePlan plan = machines(2, 3);
  add_class(plan, {}, {{65536, {2, 3, 4, 4, -1}, {}}});
  Members all = members({"h0", "h1", "h2"});
  all.at(1).draining = true;
  const auto none = find_seats(plan, trees_of(plan), all);
  EXPECT_EQ(none.status(), Status::kRefused);
  EXPECT_THAT(
      none.error().message,
      HasSubstr("\"h0\" is drained or has left, and no node can stand in for it in a tree of "
                "the plan; \"h1\" sums in it already; \"h2\" sums in it already: start"));
  EXPECT_EQ(check_layout(plan, all).error().message, none.error().message);
  all[4] = member_named("w0");  // a leaf there
  EXPECT_THAT(seats(plan, all), ElementsAre("w0 h1 h2"));
  all.at(2).draining = true;
  EXPECT_THAT(find_seats(plan, trees_of(plan), all).error().message, HasSubstr("\"h1\" is drained"))
      << "nor two vertices for one";
  all[5] = member_named("x");
  EXPECT_TRUE(check_layout(plan, all).ok());
  EXPECT_THAT(seats(plan, all), ElementsAre("x w0 h2"));
}

TEST(Substitutes, NoNodeThatHasLostANicIsASubstitute) {
  const MachinePlan plan = three_stars();
  Members all = members({"h0", "h1", "h2"});
  all.at(1).draining = true;
  all.at(3).rails = {{.address = "10.0.0.1", .shards = 1}, {.address = "10.0.1.1", .shards = 1}};
  all.at(3).rails[1].up = false;
  EXPECT_THAT(seats(plan, all), ElementsAre("h1", "h1", "h2"));
  all.at(2).draining = true;
  EXPECT_THAT(find_seats(plan, trees_of(plan), all).error().message,
              HasSubstr("\"h2\" has lost a NIC: start"));
}

TEST(Substitutes, AreListedWithTheNodesThatTheyReplace) {
  const MachinePlan plan = three_stars();
  Members all = members({"h0", "h1", "h2"});
  all.at(1).draining = all.at(3).draining = true;
  const Layout layout = lay_out(plan, all, {{0}, {1}}, 0);
  ASSERT_EQ(layout.nodes.size(), 1U);
  EXPECT_THAT(layout.nodes[0].stands_in_for, ElementsAre("h0", "h2"));
  EXPECT_THAT(layout.nodes[0].trees, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(layout.nodes[0].shards(), 2U);
  all.at(1).draining = all.at(3).draining = false;
  for (const PlanNode& node : lay_out(plan, all, {{0}, {1}}, 0).nodes) {
    EXPECT_THAT(node.stands_in_for, IsEmpty());
  }
}

// How the tree adds up, whoever does it: ranks and sums of child nodes, in order.
std::string sum_of(const Layout& layout, const ShardOf& at, std::uint32_t tree) {
  for (const PlanNode& node : layout.nodes) {
    if (node.node != at.node) continue;
    const auto place = std::find(node.trees.begin(), node.trees.end(), tree) - node.trees.begin();
    EXPECT_EQ(place % node.shards(), at.index);
    const protocol::Vertex& vertex = node.vertices.at(static_cast<std::size_t>(place));
    std::string text = "(";
    for (const std::uint16_t rank : vertex.ranks) text += std::to_string(rank) + " ";
    for (const protocol::ChildNode& child_node : vertex.child_nodes) {
      text += sum_of(layout, node.below.at(child_node.number), tree);
    }
    return text + ")";
  }
  return "nobody";
}

std::vector<std::string> sums_of(const Layout& layout) {
  std::vector<std::string> sums(layout.plan.trees);
  for (const PlanNode& node : layout.nodes) {
    for (std::size_t i = 0; i < node.trees.size(); ++i) {
      if (!node.vertices[i].is_root()) continue;
      const auto index = static_cast<std::uint32_t>(i % node.shards());
      sums[node.trees[i]] = sum_of(layout, {node.node, index}, node.trees[i]);
    }
  }
  return sums;
}

bool same_cut(const protocol::Partition& a, const protocol::Partition& b) {
  const auto same_class = [](const protocol::SizeClass& x, const protocol::SizeClass& y) {
    return x.max_bytes == y.max_bytes && x.divided == y.divided && x.trees == y.trees &&
           x.weights == y.weights;
  };
  const auto same_home = [](const protocol::Home& x, const protocol::Home& y) {
    return x.tag == y.tag && x.bytes == y.bytes && x.tree == y.tree;
  };
  return a.trees == b.trees &&
         std::equal(a.classes.begin(), a.classes.end(), b.classes.begin(), b.classes.end(),
                    same_class) &&
         std::equal(a.homes.begin(), a.homes.end(), b.homes.begin(), b.homes.end(), same_home);
}

// Its trees are not there: what it has lost does not limit them, nor the cut.
TEST(Substitutes, NoNicOfADrainedNodeCountsAsLost) {
  MachinePlan plan = machines(2, 2);
  add_class(plan, {}, {{40000, {2, 2, 3, -1}, {}}, {25536, {2, 2, -1, -2}, {}}});
  Members all = members({"h0", "h1", "x"});
  all.at(1).rails = {{.address = "10.0.0.1", .speed = 300, .shards = 1},
                     {.address = "10.0.1.1", .speed = 100, .shards = 1}};
  const Layout before = lay_out(plan, all, {{0}, {1}}, 0);
  all.at(1).rails[0].up = false;
  EXPECT_EQ(check_layout(plan, all).status(), Status::kRefused) << "two trees at one shard";
  all.at(1).draining = true;
  ASSERT_TRUE(check_layout(plan, all).ok());
  const Layout after = lay_out(plan, all, {{0}, {1}}, 0);
  EXPECT_TRUE(protocol::valid(after.plan));
  EXPECT_TRUE(same_cut(before.plan, after.plan));
}

// By the cut, and by the order in which each tree adds: whoever is drained.
TEST(Substitutes, SubstitutesDoNotChangeTheBitsOfResults) {
  std::mt19937_64 random(5), ways(6);
  int changed = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const std::size_t workers = 1 + random() % 6, helpers = random() % 5;
    MachinePlan plan = machines(workers, helpers);
    auto trees = random_trees(random, workers, helpers, 1 + random() % 6);
    add_ways_down(ways, workers, helpers, trees);
    add_class(plan, {}, std::move(trees));
    plan.file.domains[0].tensors = {{1, 3000}, {2, 70000}, {5, 8000}, {9, 100}};
    if (!plan::validate(plan.file, {.max_height = 20}).ok()) continue;
    Members all;
    for (std::size_t i = 0; i < workers + helpers + random() % 3; ++i) {
      Member& made = all[i + 1];
      made = member_named(i < workers + helpers ? plan.file.network.vertices[i].name.c_str() : "x");
      made.shards = static_cast<std::uint32_t>(1 + random() % 3);
      if (random() % 2 == 0) continue;
      made.rails = {{.address = "10.0.0.1", .speed = 1 + random() % 9, .shards = made.shards}};
    }
    std::vector<Ranks> ranks(workers);
    for (std::uint16_t rank = 0; rank < workers; ++rank) ranks[rank] = {rank};
    const Layout before = lay_out(plan, all, ranks, 4096);
    for (auto& [node, member] : all) member.draining = random() % 3 == 0;
    if (!find_seats(plan, trees_of(plan), all)) continue;
    const Layout after = lay_out(plan, all, ranks, 4096);
    ASSERT_TRUE(same_cut(before.plan, after.plan));
    ASSERT_EQ(sums_of(before), sums_of(after));
    for (const PlanNode& node : after.nodes) {
      ASSERT_FALSE(all.at(node.node).draining);
      ASSERT_TRUE(std::is_sorted(node.trees.begin(), node.trees.end(), std::less_equal<>()))
          << "one vertex in a tree";
      changed += node.stands_in_for.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(changed, 50);
}

}  // namespace
}  // namespace tally::control
