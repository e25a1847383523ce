#include "control/plan/drawing/dot.h"

#include <gtest/gtest.h>

#include "tests/support/control/test_networks.h"

namespace tally::plan {
namespace {

// Two racks of one worker each, the first with a helper, below one switch.
Network two_racks() {
  Network network{{machine(Role::kWorker, 1e9, "a"),
                   machine(Role::kHelper, 1e9, "h"),
                   machine(Role::kWorker, 1e9, "b"),
                   {.role = Role::kSwitch, .name = "r1"},
                   {.role = Role::kSwitch, .name = "r2"},
                   {.role = Role::kSwitch, .name = "core"}},
                  {}};
  join(network, 0, 3, 1e9);
  join(network, 1, 3, 1e9);
  join(network, 2, 4, 1e9);
  join(network, 3, 5, 1e9);
  join(network, 4, 5, 1e9);
  return network;
}

const std::vector<VertexId> kWorkers = {0, 2};

testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << part << " is not in\n" << text;
}

TEST(Drawing, OfATreeShowsRacksAndRoles) {
  const std::vector<Tree> tree = {{kWeightUnit, {1, kIsRoot, 1}, {}}};
  EXPECT_EQ(draw_trees(two_racks(), kWorkers, tree, "one tree"), R"(digraph trees {
  rankdir=BT; labelloc=t; fontname="sans-serif";
  label="one tree";
  node [fontname="sans-serif"]; edge [fontname="sans-serif", fontsize=10];
  subgraph cluster_3 {
    label="r1"; color=gray60; style=rounded;
    v3 [label="r1", shape=diamond, color=gray40, fontcolor=gray40];
    v0 [label="a", shape=box, style=filled, fillcolor="#cfe2f3"];
    v1 [label="h\nroot", shape=ellipse, style=filled, fillcolor="#d9ead3", color=red, penwidth=3];
  }
  subgraph cluster_4 {
    label="r2"; color=gray60; style=rounded;
    v4 [label="r2", shape=diamond, color=gray40, fontcolor=gray40];
    v2 [label="b", shape=box, style=filled, fillcolor="#cfe2f3"];
  }
  v5 [label="core", shape=diamond, color=gray40, fontcolor=gray40];
  v0 -> v1 [penwidth=1.00];
  v2 -> v1 [penwidth=1.00];
  v3 -> v5 [dir=none, style=dotted, color=gray40, constraint=false];
  v4 -> v5 [dir=none, style=dotted, color=gray40, constraint=false];
}
)");
}

TEST(Drawing, OfSeveralTreesAddsSharesUp) {
  const std::vector<Tree> trees = {{kWeightUnit / 2, {kIsRoot, 0, 1}, {}},
                                   {kWeightUnit / 4, {kIsRoot, kIsAbsent, 0}, {}},
                                   {kWeightUnit / 4, {2, kIsAbsent, kIsRoot}, {}}};
  const std::string text = draw_trees(two_racks(), kWorkers, trees, "");
  EXPECT_TRUE(has(text, "v0 [label=\"a\\nroot of 75.0%\", shape=box"));
  EXPECT_TRUE(has(text, "v2 [label=\"b\\nroot of 25.0%\", shape=box"));
  EXPECT_TRUE(has(text, "v1 [label=\"h\", shape=ellipse"));
  EXPECT_TRUE(has(text, "v1 -> v0 [penwidth=3.00, label=\"50.0%\"];"));
  EXPECT_TRUE(has(text, "v2 -> v1 [penwidth=3.00, label=\"50.0%\"];"));
  EXPECT_TRUE(has(text, "v2 -> v0 [penwidth=1.50, label=\"25.0%\"];"));
  EXPECT_TRUE(has(text, "v0 -> v2 [penwidth=1.50, label=\"25.0%\"];"));
}

TEST(Drawing, ShowsTheOtherWayDown) {
  const std::vector<Tree> tree = {{kWeightUnit, {kIsRoot, 0, 1}, {kIsRoot, kIsAbsent, 0}}};
  const std::string text = draw_trees(two_racks(), kWorkers, tree, "");
  EXPECT_TRUE(has(text, "v2 -> v1 [penwidth=1.00];"));
  EXPECT_TRUE(has(text, "v0 -> v2 [penwidth=1.00, style=dashed, color=blue"));
}

TEST(Drawing, ShowsMachinesWithoutAPartInGray) {
  const std::vector<Tree> tree = {{kWeightUnit, {kIsRoot, kIsAbsent, 0}, {}}};
  EXPECT_TRUE(has(draw_trees(two_racks(), kWorkers, tree, ""),
                  "v1 [label=\"h\", shape=ellipse, style=filled, fillcolor=\"white\", "
                  "color=gray60, fontcolor=gray60];"));
}

TEST(Drawing, QuotesNames) {
  Network network = two_racks();
  network.vertices[0].name = "a\"\\&";
  const std::vector<Tree> tree = {{kWeightUnit, {kIsRoot, kIsAbsent, 0}, {}}};
  EXPECT_TRUE(has(draw_trees(network, kWorkers, tree, "say \"x\""), "label=\"say \\\"x\\\"\";"));
  EXPECT_TRUE(has(draw_trees(network, kWorkers, tree, ""), "v0 [label=\"a\\\"\\\\&amp;\\nroot\""));
}

TEST(Drawing, ShowsLinksBetweenMachinesAndSecondNics) {
  Network network = two_racks();
  join(network, 0, 2, 1e9);
  join(network, 1, 4, 1e9);
  const std::vector<Tree> tree = {{kWeightUnit, {kIsRoot, kIsAbsent, 0}, {}}};
  const std::string text = draw_trees(network, kWorkers, tree, "");
  EXPECT_TRUE(has(text, "  v0 -> v2 [dir=none, style=dotted"));
  EXPECT_TRUE(has(text, "  v1 -> v4 [dir=none, style=dotted"));
  EXPECT_FALSE(has(text, "  v0 -> v3 [dir=none"));
}

}  // namespace
}  // namespace tally::plan
