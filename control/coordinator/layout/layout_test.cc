#include "control/coordinator/layout/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <set>

#include "control/coordinator/records/vertex_json.h"
#include "control/plan/model/tree.h"
#include "control/plan/model/validate.h"
#include "tests/support/control/layout_fixture.h"

namespace tally::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ranks = std::vector<std::uint16_t>;

TEST(Layout, AStarIsAtTheNodeOfItsRoot) {
  MachinePlan plan = machines(2, 2);
  const plan::Parents first = {2, 2, -1, -2}, second = {3, 3, -2, -1};
  add_class(plan, 4096, {{65536, second, {}}});
  add_class(plan, {}, {{40001, first, {}}, {25535, second, {}}});
  ASSERT_TRUE(plan::validate(plan.file, {}).ok());
  const Members all = members({"h1", "x", "h0"});
  ASSERT_TRUE(check_layout(plan, all).ok()) << "workers that are leaves need no node";
  EXPECT_FALSE(asks_for_hosts(plan));
  const Layout layout = lay_out(plan, all, {{0, 1}, {2}}, 1 << 18);
  ASSERT_TRUE(protocol::valid(layout.plan));
  ASSERT_EQ(layout.nodes.size(), 2U);
  EXPECT_EQ(layout.nodes[0].member.name, "h0");
  EXPECT_EQ(layout.nodes[1].member.name, "h1");
  // The second is the first that the classes name.
  EXPECT_THAT(layout.nodes[1].trees, ElementsAre(0, 1));
  EXPECT_THAT(layout.nodes[0].trees, ElementsAre(2, 3));
  EXPECT_TRUE(all_stars(layout.nodes[0].vertices, 3));
  EXPECT_EQ(layout.plan.trees, 4U);
  // Up to 4096 as the file says, then whole up to split_bytes, then divided.
  ASSERT_EQ(layout.plan.classes.size(), 3U);
  EXPECT_EQ(layout.plan.classes[0].max_bytes, 4096U);
  EXPECT_FALSE(layout.plan.classes[0].divided);
  EXPECT_THAT(layout.plan.classes[0].trees, ElementsAre(0, 1));
  EXPECT_THAT(layout.plan.classes[0].weights, ElementsAre(32768, 32768));
  EXPECT_EQ(layout.plan.classes[1].max_bytes, (1U << 18) - 1);
  EXPECT_FALSE(layout.plan.classes[1].divided);
  EXPECT_TRUE(layout.plan.classes[2].divided);
  EXPECT_THAT(layout.plan.classes[2].trees, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(layout.plan.classes[2].weights, ElementsAre(12768, 12767, 20001, 20000));
}

TEST(Layout, OperationsBelowTheBoundAreNotDivided) {
  MachinePlan plan = machines(2, 1);
  add_class(plan, 1 << 20, {{65536, {2, 2, -1}, {}}});
  plan.file.domains[0].classes[0].divided = true;
  add_class(plan, {}, {{65536, {2, 2, -1}, {}}});
  const Members all = members({"h0"});
  const auto divided = [&](std::uint64_t split_bytes) {
    std::vector<std::pair<std::uint64_t, bool>> list;
    for (const auto& one : lay_out(plan, all, {{0}, {1}}, split_bytes).plan.classes) {
      list.emplace_back(one.max_bytes, one.divided);
    }
    return list;
  };
  using List = std::vector<std::pair<std::uint64_t, bool>>;
  EXPECT_EQ(divided(0), (List{{1 << 20, true}, {UINT64_MAX, true}}));
  EXPECT_EQ(divided(4096), (List{{4095, false}, {1 << 20, true}, {UINT64_MAX, true}}));
  EXPECT_EQ(divided(4 << 20), (List{{1 << 20, false}, {(4 << 20) - 1, false}, {UINT64_MAX, true}}));
}

TEST(Layout, TheLastClassForReduceScattersIsCutInOrder) {
  const Members all = members({"h0"});
  const auto in_order = [&](bool rs_ag, std::uint64_t split_bytes) {
    MachinePlan plan = machines(2, 1);
    add_class(plan, 1 << 17, {{65536, {2, 2, -1}, {}}});
    add_class(plan, {}, {{65536, {2, 2, -1}, {}}});
    for (plan::SizeClass& one : plan.file.domains[0].classes) {
      one.divided = true;
      one.rs_ag = rs_ag;
    }
    std::vector<bool> found;
    for (const auto& one : lay_out(plan, all, {{0}, {1}}, split_bytes).plan.classes) {
      found.push_back(one.in_order);
    }
    return found;
  };
  EXPECT_THAT(in_order(true, 0), ElementsAre(false, true));
  EXPECT_THAT(in_order(true, 1 << 18), ElementsAre(false, false, true)) << "whole ones have none";
  EXPECT_THAT(in_order(false, 0), ElementsAre(false, false));
}

TEST(Layout, ManyTreesHaveFewerCopies) {
  MachinePlan plan = machines(2, 100);
  std::vector<plan::Tree> trees;
  for (plan::VertexId root = 2; root < 102; ++root) {
    trees.push_back({root == 2 ? 65536U - 99 * 600 : 600U,
                     plan::star_parents(102, plan.of().workers, root),
                     {}});
  }
  add_class(plan, {}, std::move(trees));
  Members all;
  for (int i = 0; i < 100; ++i) {
    all[i + 1].name = "h" + std::to_string(i);
    all[i + 1].shards = 4;
  }
  const Layout layout = lay_out(plan, all, {{0}, {1}}, 0);
  EXPECT_EQ(layout.plan.trees, 200U);
  EXPECT_TRUE(protocol::valid(layout.plan));
}

// Two racks: each rack's workers at a helper of theirs, one helper above; and a chain of workers.
TEST(Layout, DeeperTreesHaveChildNodesAndParents) {
  MachinePlan plan = machines(4, 3);
  const plan::Parents racks = {4, 4, 5, 5, 6, 6, -1};
  const plan::Parents chain = {-1, 0, 1, 2, -2, -2, -2};
  add_class(plan, {}, {{40000, racks, {}}, {25536, chain, {}}});
  ASSERT_TRUE(plan::validate(plan.file, {}).ok());
  const Members all = members({"w0", "w1", "w2", "h0", "h1", "h2"});
  ASSERT_TRUE(check_layout(plan, all).ok()) << "w3 is a leaf everywhere";
  EXPECT_TRUE(asks_for_hosts(plan));
  const Layout layout = lay_out(plan, all, {{0}, {1, 4}, {2}, {3}}, 0);
  ASSERT_TRUE(protocol::valid(layout.plan));
  std::map<std::string, PlanNode> nodes;
  for (const PlanNode& node : layout.nodes) nodes[node.member.name] = node;
  ASSERT_EQ(nodes.size(), 6U);
  const PlanNode& top = nodes["h2"];
  EXPECT_THAT(top.trees, ElementsAre(0, 1));
  EXPECT_EQ(top.vertices[0].height, 2U);
  EXPECT_TRUE(top.vertices[0].is_root());
  EXPECT_TRUE(top.vertices[0].ranks.empty());
  ASSERT_EQ(top.vertices[0].child_nodes.size(), 2U);
  EXPECT_THAT(top.vertices[0].child_nodes[0].ranks, ElementsAre(0, 1, 4));
  EXPECT_THAT(top.vertices[0].child_nodes[1].ranks, ElementsAre(2, 3));
  const NodeId rack = nodes["h0"].node;
  EXPECT_EQ(top.below.at(0), (ShardOf{rack, 0}));
  EXPECT_EQ(top.below.at(2), (ShardOf{rack, 1})) << "the second copy is at its other shard";
  EXPECT_EQ(top.vertices[1].child_nodes[0].number, 2U);
  const PlanNode& inner = nodes["h1"];
  EXPECT_EQ(inner.vertices[0].height, 1U);
  EXPECT_THAT(inner.vertices[0].ranks, ElementsAre(2, 3));
  EXPECT_EQ(inner.vertices[0].parent, 0U);
  EXPECT_EQ(inner.above.at(inner.vertices[1].parent), (ShardOf{top.node, 1}));
  const PlanNode& middle = nodes["w1"];
  EXPECT_THAT(middle.trees, ElementsAre(2, 3));
  EXPECT_EQ(middle.vertices[0].height, 2U);
  EXPECT_THAT(middle.vertices[0].ranks, ElementsAre(1, 4)) << "both ranks of the machine";
  EXPECT_THAT(middle.vertices[0].child_nodes.at(0).ranks, ElementsAre(2, 3));
  EXPECT_EQ(nodes["w0"].vertices[0].height, 3U);
  EXPECT_THAT(nodes["w2"].vertices[0].ranks, ElementsAre(2, 3)) << "its own, and the leaf's";
}

// Whatever the tree: every rank has one parent in it, and remote shards agree about each other.
TEST(Layout, ParentsAndChildrenOfRandomTreesMatch) {
  std::mt19937_64 random(11), ways(12);
  int apart = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const std::size_t workers = 1 + random() % 6, helpers = random() % 5;
    MachinePlan plan = machines(workers, helpers);
    auto trees = random_trees(random, workers, helpers, 1 + random() % 4);
    add_ways_down(ways, workers, helpers, trees);
    add_class(plan, {}, std::move(trees));
    if (!plan::validate(plan.file, {.max_height = 20}).ok()) continue;  // a root helper of nothing
    Members all;
    for (std::size_t i = 0; i < workers + helpers; ++i) {
      all[i + 1].name = plan.file.network.vertices[i].name;
      all[i + 1].shards = static_cast<std::uint32_t>(1 + random() % 3);
    }
    std::vector<Ranks> ranks(workers);
    const std::uint16_t total = static_cast<std::uint16_t>(workers + random() % 4);
    for (std::uint16_t rank = 0; rank < total; ++rank) {
      ranks[rank < workers ? rank : random() % workers].push_back(rank);
    }
    const Layout layout = lay_out(plan, all, ranks, random() % 2 * 4096);
    ASSERT_TRUE(protocol::valid(layout.plan));
    std::map<NodeId, const PlanNode*> nodes;
    for (const PlanNode& node : layout.nodes) nodes[node.node] = &node;
    for (std::uint32_t tree = 0; tree < layout.plan.trees; ++tree) {
      std::multiset<std::uint16_t> seen;
      int roots = 0;
      for (const PlanNode& node : layout.nodes) {
        ASSERT_EQ(node.trees.size(), node.vertices.size());
        ASSERT_TRUE(parse_vertices(to_json(node.vertices), {.trees = node.trees,
                                                            .ranks = total,
                                                            .below = node.below.size(),
                                                            .above = node.above.size()}))
            << to_json(node.vertices);
        for (std::size_t i = 0; i < node.trees.size(); ++i) {
          if (node.trees[i] != tree) continue;
          const protocol::Vertex& vertex = node.vertices[i];
          seen.insert(vertex.ranks.begin(), vertex.ranks.end());
          roots += vertex.is_root() ? 1 : 0;
          const ShardOf here{node.node, node.indices(layout.plan)[i]};
          if (const auto sums = layout.plan.sum_tree(tree);
              vertex.is_root() && sums != protocol::kNoTree) {
            const auto at =
                std::find(node.trees.begin(), node.trees.end(), sums) - node.trees.begin();
            ASSERT_LT(at, static_cast<std::ptrdiff_t>(node.trees.size()));
            ASSERT_TRUE(node.vertices[at].is_root());
            ASSERT_EQ(node.indices(layout.plan)[at], here.index) << "one shard has both roots";
            ++apart;
          }
          for (const protocol::ChildNode& child_node : vertex.child_nodes) {
            const ShardOf below = node.below.at(child_node.number);
            const PlanNode& child = *nodes.at(below.node);
            const auto at =
                std::find(child.trees.begin(), child.trees.end(), tree) - child.trees.begin();
            ASSERT_LT(at, static_cast<std::ptrdiff_t>(child.trees.size()));
            ASSERT_EQ(below.index, child.indices(layout.plan)[at]);
            ASSERT_EQ(child.above.at(child.vertices[at].parent), here);
            ASSERT_LT(child.vertices[at].height, vertex.height);
          }
        }
      }
      ASSERT_EQ(roots, 1);
      ASSERT_EQ(seen.size(), total);
      ASSERT_EQ(std::set(seen.begin(), seen.end()).size(), total);
    }
  }
  EXPECT_GT(apart, 100);
}

// Nodes of two NICs with two shards each.
Members with_rails(std::initializer_list<const char*> names) {
  Members all = members(names, 4);
  for (auto& [node, member] : all) {
    for (const std::uint64_t speed : {300, 100}) {
      member.rails.push_back({.address = "10.0.0.1", .speed = speed, .shards = 2});
    }
  }
  return all;
}

TEST(Layout, TreesUseTheNicsThatAreUp) {
  MachinePlan plan = machines(2, 2);
  add_class(plan, {}, {{40000, {2, 2, -1, -2}, {}}, {25536, {3, 3, -2, -1}, {}}});
  Members all = with_rails({"w0", "w1", "h0", "h1"});
  const auto laid = [&] { return lay_out(plan, all, {{0}, {1}}, 0); };
  const Layout both = laid();
  EXPECT_THAT(both.nodes[0].rails, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(both.plan.classes[0].weights,
              ElementsAre(15000, 14999, 5001, 5000, 9576, 9575, 3193, 3192))
      << "as their NICs are fast";
  all.at(4).rails[1].up = false;
  const Layout one = laid();
  EXPECT_THAT(one.nodes[0].rails, ElementsAre(0, 0, 1, 1)) << "a helper's loss is its own";
  EXPECT_THAT(one.nodes[1].rails, ElementsAre(0, 0));
  EXPECT_EQ(one.nodes[1].shards(), 2U);
  EXPECT_THAT(one.plan.classes[0].weights, ElementsAre(15000, 14999, 5001, 5000, 12768, 12768));
  all.at(1).role = Role::kWorker;
  all.at(1).rails[0].up = false;
  const Layout neither = laid();
  EXPECT_THAT(neither.nodes[0].rails, ElementsAre(1, 1)) << "workers reach no node by it";
  EXPECT_THAT(neither.nodes[1].rails, ElementsAre(0, 0, 1, 1)) << "of its own none is left";
  ASSERT_TRUE(protocol::valid(neither.plan));
}

TEST(Layout, SeveralTreesAtANodeShareTheNicsThatAreUp) {
  MachinePlan plan = machines(2, 3);
  const plan::Parents racks = {2, 3, 4, 4, -1}, star = {4, 4, -2, -2, -1};
  add_class(plan, {}, {{40000, racks, {}}, {25536, star, {}}});
  Members all = with_rails({"h0", "h1", "h2"});
  for (auto& [node, member] : all) member.rails[0].up = false;
  const Layout layout = lay_out(plan, all, {{0}, {1}}, 0);
  ASSERT_EQ(layout.nodes.size(), 3U);
  const PlanNode& top = layout.nodes[2];
  EXPECT_THAT(top.trees, ElementsAre(0, 1)) << "no more than shards of NICs that are up";
  EXPECT_THAT(top.rails, ElementsAre(1, 1));
  EXPECT_THAT(layout.nodes[0].rails, ElementsAre(1)) << "also where it only passes sums on";
  for (auto& [node, member] : all) {
    member.shards = 2;
    member.rails[0].shards = member.rails[1].shards = 1;
  }
  const auto fine = check_layout(plan, all);
  EXPECT_EQ(fine.status(), Status::kRefused);
  EXPECT_THAT(fine.error().message, HasSubstr("2 trees of domain \"all\" sum at node \"h2\""));
  EXPECT_THAT(fine.error().message, HasSubstr("the others have 1 shard(s)"));
  for (auto& [node, member] : all) member.rails[0].up = true;
  EXPECT_TRUE(check_layout(plan, all).ok());
}

// A worker's machine that sums, too, as another machine of the plan.
TEST(Layout, ALeafMayHaveTheNameOfAMachineThatSums) {
  MachinePlan plan = machines(2, 1);
  plan.file.network.vertices[0].name = "h0";
  add_class(plan, {}, {{65536, {2, 2, -1}, {}}});
  const Members all = members({"h0"}, 4);
  ASSERT_TRUE(check_layout(plan, all).ok());
  const Layout layout = lay_out(plan, all, {{0}, {1}}, 0);
  ASSERT_EQ(layout.nodes.size(), 1U);
  EXPECT_THAT(layout.nodes[0].trees, ElementsAre(0, 1, 2, 3)) << "one at each of its shards";
}

TEST(Layout, BuffersBetweenNodesFollowThePlan) {
  MachinePlan plan = machines(3, 0);
  add_class(plan, {}, {{65536, {-1, 0, 1}, {}}});
  plan.file.domains[0].classes[0].window = 24;
  const auto buffers = [&] {
    return lay_out(plan, members({"w0", "w1"}), {{0}, {1}, {2}}, 0).buffers;
  };
  EXPECT_EQ(buffers(), (protocol::BufferLayout{64 << 10, 24, 24, 1}));
  plan.file.domains[0].classes[0].trees[0].up = {-1, 0, 0};
  EXPECT_EQ(buffers(), protocol::BufferLayout{}) << "a star needs none";
}

TEST(Layout, BuffersAreSmallAndManyWhereRootsHaveAPace) {
  MachinePlan plan = machines(3, 0);
  add_class(plan, {}, {{65536, {-1, 0, 1}, {}}});
  plan.file.domains[0].classes[0].chunk = 256 << 10;
  const auto buffers = [&] {
    return lay_out(plan, members({"w0", "w1"}), {{0}, {1}, {2}}, 0).buffers;
  };
  EXPECT_EQ(buffers(), (protocol::BufferLayout{32 << 10, 64, 64, 1}));
  plan.file.domains[0].classes[0].window = 12;
  EXPECT_EQ(buffers(), (protocol::BufferLayout{256 << 10, 12, 12, 1}));
}

TEST(Layout, ReportsWhatNodesCannotServe) {
  MachinePlan plan = machines(2, 2);
  add_class(plan, {}, {{40000, {2, 2, -1, -2}, {}}, {25536, {3, 3, -2, -1}, {}}});
  const auto none = check_layout(plan, {});
  EXPECT_EQ(none.status(), Status::kRefused);
  EXPECT_THAT(none.error().message, HasSubstr("no members: \"h0\", \"h1\""));
  EXPECT_THAT(none.error().message, HasSubstr("Members are: none"));
  EXPECT_THAT(
      check_layout(plan, members({"h1", "w0"})).error().message,
      HasSubstr(
          "no members: \"h0\"; \"addr\" is a node's cluster.name. Members are: \"h1\", \"w0\""));
  MachinePlan twice = plan;
  twice.file.network.vertices[3].name = "h0";
  EXPECT_THAT(check_layout(twice, members({"h0", "h1"})).error().message,
              HasSubstr("nodes[2] and nodes[3] both sum, and both have \"addr\": \"h0\""));
  plan.file.domains[0].classes[0].trees[1].down = {3, 0, -2, -1};
  EXPECT_THAT(check_layout(plan, members({"h0", "h1"})).error().message,
              HasSubstr("no members: \"w0\""))
      << "it hands results on";
}

TEST(Layout, TensorsHaveTheSameHomesWhateverWayResultsGo) {
  MachinePlan plan = machines(2, 2);
  add_class(plan, {}, {{32768, {2, 2, -1, -2}, {}}, {32768, {3, 3, -2, -1}, {}}});
  plan.file.domains[0].tensors = {{1, 4000}, {2, 4000}, {3, 4000}};
  const auto homes = [&] {
    return lay_out(plan, members({"w0", "w1", "h0", "h1"}), {{0}, {1}}, 1 << 20).plan.homes;
  };
  const auto same_way = homes();
  ASSERT_EQ(same_way.size(), 3U);
  for (plan::Tree& tree : plan.file.domains[0].classes[0].trees) tree.down = tree.up;
  plan.file.domains[0].classes[0].trees[0].down = {2, 0, -1, -2};
  EXPECT_EQ(homes(), same_way);
}

TEST(Layout, RanksGoToTheWorkersOfTheirHosts) {
  const MachinePlan plan = machines(3, 0);
  const Members all = members({"w0", "w1"});
  const auto at = [&](std::vector<std::string> hosts) {
    return ranks_of_workers(plan, all, hosts);
  };
  // By a member's host, or by the worker's own name where it has no node.
  const auto placed = at({"host-w1", "w2", "host-w0", "host-w1"});
  ASSERT_TRUE(placed.ok()) << placed.error().message;
  EXPECT_THAT(*placed, ElementsAre(Ranks{2}, Ranks{0, 3}, Ranks{1}));
  // All on one host: by their numbers, where there are as many.
  EXPECT_THAT(*at({"here", "here", "here"}), ElementsAre(Ranks{0}, Ranks{1}, Ranks{2}));
  EXPECT_THAT(*at({"w2", "w2", "w1"}), ElementsAre(Ranks{0}, Ranks{1}, Ranks{2}))
      << "one worker has no rank";
  for (const auto& hosts : {std::vector<std::string>{"here", "here", "here", "here"},
                            std::vector<std::string>{"w0", "w1"},
                            std::vector<std::string>{"w0", "w1", "w2", "elsewhere"}}) {
    EXPECT_THAT(at(hosts).error().message, HasSubstr("has 3 workers and the job"));
  }
  Members same = members({"w0", "w1"});
  for (auto& [node, member] : same) member.host = "one";
  EXPECT_THAT(*ranks_of_workers(plan, same, {"one", "one", "w2"}),
              ElementsAre(Ranks{0}, Ranks{1}, Ranks{2}))
      << "two workers on one host are not distinguished";
}

}  // namespace
}  // namespace tally::control
