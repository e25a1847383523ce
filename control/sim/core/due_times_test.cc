#include "control/sim/core/due_times.h"

#include <gtest/gtest.h>

#include "tests/support/control/test_plans.h"

namespace tally::simulator {
namespace {

// A tree of five machines, each with a NIC of 100 bytes a second, in tiles of 100 bytes.
DueTimes due_times(const plan::Parents& parents, double seconds_between) {
  const plan::Network network = plan::star_network(plan::equal_machines(5, 0, 100));
  Passages passages(network);
  TreeSet set;
  set.trees = {plan::Tree{plan::kWeightUnit, parents, {}}};
  set.bytes = {100};
  set.chunk = 100;
  return DueTimes(flat_trees(set, passages)[0], network, 100, seconds_between);
}

TEST(DueTimes, FollowATileThatIsAlone) {
  // 3 and 4 send to 1; 1 and 2 send to the root, 0.
  const DueTimes due = due_times({-1, 0, 0, 1, 1}, 1);
  EXPECT_EQ(due.sum_of(3), 0u);
  EXPECT_EQ(due.sum_of(2), 0u);
  EXPECT_EQ(due.sum_of(1), 2u) << "two inputs have come, one after the other";
  EXPECT_EQ(due.result_for(1), 4u) << "two inputs have come to the root";
  // Leaves: three times the 6 and 8 seconds after which the result is there.
  EXPECT_EQ(due.result_for(2), 18u);
  EXPECT_EQ(due.result_for(3), 24u);
}

TEST(DueTimes, CountInTurnsOfTiles) {
  const DueTimes due = due_times({-1, 0, 0, 1, 1}, 0.5);
  EXPECT_EQ(due.sum_of(1), 4u);
  EXPECT_EQ(due.result_for(1), 8u);
}

}  // namespace
}  // namespace tally::simulator
