#include "control/sim/core/repair.h"

#include <gtest/gtest.h>

#include "control/plan/model/validate.h"
#include "tests/support/control/test_plans.h"

namespace tally::simulator {
namespace {

using plan::Parents;

// Workers 0 to 3, helpers 4 and 5.
plan::Network network() {
  return plan::star_network(plan::equal_machines(4, 2, 1e9));
}

Parents repaired(const Parents& parents, plan::VertexId failed) {
  const TreeSet set{.trees = {plan::Tree{65536, parents, {}}}, .bytes = {100}, .chunk = 1};
  const auto result = without_node(set, network(), failed);
  if (!result) {
    ADD_FAILURE() << result.error().message;
    return {};
  }
  return result->trees[0].up;
}

TEST(Repair, AHelperReplacesAHelperAtTheRoot) {
  // The lowest machine that sums nothing is worker 0. It leaves its place as a leaf.
  EXPECT_EQ(repaired({4, 4, 4, 4, -1, -2}, 4), (Parents{-1, 0, 0, 0, -2, -2}));
}

TEST(Repair, AFailedWorkerIsARankOfItsSubstitute) {
  // Worker 0 sums in the tree already, so its leaf 2 takes the vertex of 1.
  EXPECT_EQ(repaired({-1, 0, 1, 1, -2, -2}, 1), (Parents{-1, 2, 0, 2, -2, -2}));
}

TEST(Repair, AHelperWithoutChildrenIsTakenOut) {
  // Worker 0 was the only child of helper 4, and goes to the root instead of helper 5.
  EXPECT_EQ(repaired({4, 5, 5, 5, 5, -1}, 5), (Parents{-1, 0, 0, 0, -2, -2}));
}

TEST(Repair, ALeafHasNoVertexToRepair) {
  const Parents star = {4, 4, 4, 4, -1, -2};
  EXPECT_EQ(repaired(star, 2), star);
}

TEST(Repair, StarsAtAllMachinesNeedATreeWhereTheMachineSumsNothing) {
  const std::vector<plan::VertexId> workers = {0, 1, 2, 3};
  TreeSet set{.trees = {}, .bytes = {}, .chunk = 1};
  for (plan::VertexId root = 0; root < 6; ++root) {
    set.trees.push_back(plan::Tree{0, plan::star_parents(6, workers, root), {}});
    set.bytes.push_back(100);
  }
  const auto result = without_node(set, network(), 3);
  ASSERT_TRUE(result.ok());
  for (std::size_t i = 0; i < 6; ++i) {
    const auto shape = plan::Shape::of(result->trees[i].up, "up");
    ASSERT_TRUE(shape.ok());
    EXPECT_TRUE(shape->children(3).empty()) << i;
    for (const plan::VertexId worker : workers) EXPECT_TRUE(shape->has(worker)) << i;
  }
}

TEST(Repair, RefusesATreeInWhichAllOthersSum) {
  const plan::Network small = plan::star_network(plan::equal_machines(2, 0, 1e9));
  // The way up and the way down use different machines as parents, so both sum or replicate.
  const TreeSet set{.trees = {plan::Tree{0, {-1, 0}, {}}}, .bytes = {100}, .chunk = 1};
  EXPECT_TRUE(without_node(set, small, 0).ok());
  const plan::Network alone = plan::star_network(plan::equal_machines(3, 0, 1e9));
  const TreeSet path{.trees = {plan::Tree{0, {-1, 0, 1}, {-1, 2, 0}}}, .bytes = {100}, .chunk = 1};
  const auto result = without_node(path, alone, 0);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message,
            "no machine can take the vertex of worker 0 in tree 0: all others sum there already; "
            "give the network a helper");
}

}  // namespace
}  // namespace tally::simulator
