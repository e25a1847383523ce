#include "dataplane/protocol/cut.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tally::protocol {
namespace {

Plan random_plan(std::mt19937_64& random) {
  const auto trees = static_cast<std::uint32_t>(1 + random() % 9);
  Plan plan = even_plan(trees, random() % 3 == 0 ? 0 : 1 << (12 + random() % 12));
  for (int moves = 0; moves < 5; ++moves) {  // uneven, and sometimes a tree of weight zero
    auto& from = plan.weights[random() % trees];
    const auto taken = static_cast<std::uint32_t>(random() % (from + 1));
    from -= taken;
    plan.weights[random() % trees] += taken;
  }
  return plan;
}

TEST(Cut, PartsTileTheOperationInProportionToTheWeights) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 3000; ++trial) {
    const Plan plan = random_plan(random);
    ASSERT_TRUE(valid(plan));
    const Operand operand{0, static_cast<std::uint32_t>(random()),
                          kElementTypes[random() % kElementTypes.size()].type,
                          random() % (1ULL << (random() % 34))};
    const std::uint32_t parts = part_count(plan, operand);
    std::uint64_t next = 0;
    for (std::uint32_t i = 0; i < parts; ++i) {
      const Part part = cut(plan, operand, i);
      ASSERT_EQ(part.first, next);
      if (i > 0 && part.count > 0) {
        ASSERT_EQ(part.first % kCutElements, 0u);
      }
      if (parts > 1) {
        const double share = static_cast<double>(operand.count) * plan.weights[part.tree] / 65536;
        ASSERT_LE(std::abs(static_cast<double>(part.count) - share), 2.0 * kCutElements);
      }
      next += part.count;
    }
    ASSERT_EQ(next, operand.count);
    ASSERT_EQ(cut(plan, operand, 0).tree, home_tree(plan, operand.group, operand.tag));
  }
}

TEST(Cut, SmallOperationsGoWholeToTheirHome) {
  const Plan plan = even_plan(4, 1 << 20);
  const Operand small{0, 17, ElementType::kF32, (1 << 18) - 1};
  const Operand large{0, 17, ElementType::kF32, 1 << 18};
  EXPECT_EQ(part_count(plan, small), 1u);
  EXPECT_EQ(cut(plan, small, 0).count, small.count);
  EXPECT_EQ(part_count(plan, large), 4u);
}

TEST(Cut, HomesFollowTheWeightsForAnyStrideOfTags) {
  Plan plan = even_plan(4, 0);
  plan.weights = {32768, 16384, 8192, 8192};
  for (std::uint32_t stride : {1u, 2u, 4u, 16u, 1000u, 4096u}) {
    std::vector<int> hits(4);
    for (std::uint32_t i = 0; i < 1024; ++i) ++hits[home_tree(plan, 0, i * stride)];
    for (std::size_t tree = 0; tree < 4; ++tree) {
      EXPECT_NEAR(hits[tree], 1024.0 * plan.weights[tree] / 65536, 40) << "stride " << stride;
    }
  }
}

TEST(Cut, PlansFromOutsideAreChecked) {
  EXPECT_FALSE(valid(Plan{}));
  EXPECT_FALSE(valid(Plan{{65535}, 0}));
  EXPECT_FALSE(valid(Plan{std::vector<std::uint32_t>(kMaxTrees + 1, 1), 0}));
  EXPECT_TRUE(valid(even_plan(7, 0)));
}

}  // namespace
}  // namespace tally::protocol
