#include "control/plan/model/tree.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tally::plan {
namespace {

std::string mistake_in(const Parents& parents) {
  const auto shape = Shape::of(parents, "up");
  return shape ? "" : shape.error().message;
}

// 0 is the root; 4 is a relay below it; 1, 2 and 3 are workers, and 5 does not take part.
const Parents tree_of_five = {-1, 0, 4, 1, 0, -2};

TEST(Shape, HasTheRootTheChildrenAndTheHeights) {
  const auto shape = Shape::of(tree_of_five, "up");
  ASSERT_TRUE(shape.ok()) << shape.error().message;
  EXPECT_EQ(shape->root(), 0u);
  EXPECT_TRUE(std::ranges::equal(shape->children(0), std::vector<VertexId>{1, 4}));
  EXPECT_TRUE(shape->children(5).empty());
  EXPECT_FALSE(shape->has(5));
  EXPECT_EQ(shape->height(0), 2u);
  EXPECT_EQ(shape->height(4), 1u);
  EXPECT_EQ(shape->height(3), 0u);
  EXPECT_EQ(shape->depth(), 2u);
  EXPECT_EQ(shape->depth_of(3), 2u);
  EXPECT_TRUE(std::ranges::equal(shape->order(), std::vector<VertexId>{0, 1, 4, 3, 2}));
}

TEST(Shape, HasTheRoleOfEachVertex) {
  const auto shape = Shape::of(tree_of_five, "up");
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->duty(0, true), Duty::kRootWorker);
  EXPECT_EQ(shape->duty(0, false), Duty::kRootHelper);
  EXPECT_EQ(shape->duty(1, true), Duty::kInnerWorker);
  EXPECT_EQ(shape->duty(2, true), Duty::kLeafWorker);
  EXPECT_EQ(shape->duty(4, false), Duty::kRelay);
  EXPECT_EQ(shape->duty(5, false), Duty::kNone);
  EXPECT_EQ(duty_name(Duty::kRelay), "relay");
  const auto wide = Shape::of(Parents{-1, 2, 0, 2}, "up");
  ASSERT_TRUE(wide.ok());
  EXPECT_EQ(wide->duty(2, false), Duty::kInnerHelper);
}

TEST(Shape, OneMachineIsItsOwnRoot) {
  const auto shape = Shape::of(Parents{-1}, "up");
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->depth(), 0u);
}

TEST(Shape, RefusesParentsThatFormNoTree) {
  EXPECT_EQ(mistake_in({}), "up: no root; one of its entries must be -1");
  EXPECT_EQ(mistake_in({1, 0}), "up: no root; one of its entries must be -1");
  EXPECT_EQ(mistake_in({-1, -1}), "up[1] = -1: 0 is the root already; a tree has one");
  EXPECT_EQ(mistake_in({-1, 2}),
            "up[1] = 2: must be a worker or helper, 0 to 1, or -1 for the root, or -2 where it is "
            "not in the tree");
  EXPECT_EQ(mistake_in({-1, -3}).substr(0, 13), "up[1] = -3: m");
  EXPECT_EQ(mistake_in({-1, 2, -2}), "up[1] = 2: its parent is not in the tree");
  EXPECT_EQ(mistake_in({-1, 2, 1}), "up[1] = 2: goes in a circle and never reaches the root");
  EXPECT_EQ(mistake_in({-1, 1}), "up[1] = 1: goes in a circle and never reaches the root");
}

TEST(StarParents, AreTheRootForAllMembers) {
  EXPECT_EQ(star_parents(4, std::vector<VertexId>{0, 2}, 3), (Parents{3, -2, 3, -1}));
  EXPECT_EQ(star_parents(3, std::vector<VertexId>{0, 2}, 2), (Parents{2, -2, -1}));
}

}  // namespace
}  // namespace tally::plan
