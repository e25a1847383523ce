#include "control/plan/model/passages.h"

#include <gtest/gtest.h>

#include "tests/support/control/test_plans.h"

namespace tally::plan {
namespace {

class PassagesOfThree : public testing::Test {
 protected:
  PassagesOfThree() {
    auto machines = equal_machines(2, 1, 5);
    machines[2].sum = 7;
    network_ = star_network(machines);
  }

  Network network_;
};

TEST_F(PassagesOfThree, AreTheLinksThenTheMachines) {
  Routes routes(network_);
  const Passages passages(routes);
  ASSERT_EQ(passages.size(), 6u + 7u);
  EXPECT_EQ(passages.in(0), 6u);
  EXPECT_EQ(passages.out(1), 9u);
  EXPECT_EQ(passages.sum(1), std::nullopt);
  EXPECT_EQ(passages.sum(2), 12u);
  EXPECT_EQ(passages.capacity(12), 7);
  EXPECT_EQ(passages.at(12).passage, Passage::kSum);
}

TEST_F(PassagesOfThree, CountTheCrossingsOfATree) {
  Routes routes(network_);
  const Passages passages(routes);
  std::vector<double> bytes(passages.size());
  constexpr std::size_t kIntoHelper = 5;  // the link from the switch
  const Parents star = {2, 2, kIsRoot};
  passages.add(star, true, 1, bytes);
  EXPECT_EQ(bytes[kIntoHelper], 2);
  EXPECT_EQ(bytes[passages.in(2)], 2);
  EXPECT_EQ(bytes[*passages.sum(2)], 2);
  EXPECT_EQ(bytes[passages.out(2)], 0);
  EXPECT_EQ(bytes[passages.out(0)], 1);
  passages.add(star, false, 0.5, bytes);
  EXPECT_EQ(bytes[passages.out(2)], 1);
  EXPECT_EQ(bytes[*passages.sum(2)], 2) << "the way down sums nothing";
}

TEST_F(PassagesOfThree, EndWhereThereIsNoRoute) {
  network_.links.pop_back();  // into the helper
  Routes routes(network_);
  const Passages passages(routes);
  EXPECT_FALSE(passages.cross(0, 2, [](std::size_t) {}));
  EXPECT_TRUE(passages.cross(2, 0, [](std::size_t) {}));
}

}  // namespace
}  // namespace tally::plan
