#include "dataplane/partition/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <set>
#include <tuple>

namespace tally::protocol {
namespace {

// Uneven weights of which some are 0 often, so some trees carry nothing.
std::vector<std::uint32_t> random_weights(std::mt19937_64& random, std::uint32_t trees) {
  std::vector<std::uint32_t> weights(trees);
  weights[random() % trees] = kWeightUnit;
  for (std::uint32_t moves = 0; moves < 2 * trees; ++moves) {
    auto& from = weights[random() % trees];
    const auto taken = static_cast<std::uint32_t>(random() % (from + 1));
    from -= taken;
    weights[random() % trees] += taken;
  }
  return weights;
}

Partition random_plan(std::mt19937_64& random) {
  const auto trees = static_cast<std::uint32_t>(1 + random() % 9);
  Partition plan{trees, {}};
  std::uint64_t max_bytes = 0;
  for (auto classes = random() % 4; classes > 0; --classes) {
    max_bytes += 1 + random() % (1ULL << (random() % 30));
    plan.classes.push_back(weighted_partition(random_weights(random, trees), 0).classes[0]);
    plan.classes.back().max_bytes = max_bytes;
    plan.classes.back().divided = random() % 2 == 0;
  }
  const auto last = weighted_partition(random_weights(random, trees), 0).classes[0];
  plan.classes.push_back({kAnySize, random() % 4 != 0, last.trees, last.weights});
  return plan;
}

std::uint32_t weight_of(const SizeClass& one, std::uint32_t tree) {
  const auto found = std::find(one.trees.begin(), one.trees.end(), tree);
  return found == one.trees.end() ? 0 : one.weights[found - one.trees.begin()];
}

TEST(Cut, PartsTileTheOperationInProportionToTheWeightsOfItsClass) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 3000; ++trial) {
    const Partition plan = random_plan(random);
    ASSERT_TRUE(valid(plan));
    const Operand operand{0, static_cast<std::uint32_t>(random()),
                          kElementTypes[random() % kElementTypes.size()].type,
                          random() % (1ULL << (random() % 34))};
    const SizeClass& one = class_of(plan, operand);
    const std::uint32_t parts = part_count(plan, operand);
    if (!one.divided) {
      ASSERT_EQ(parts, 1u);
    }
    std::uint64_t next = 0;
    std::set<std::uint32_t> trees;
    for (std::uint32_t i = 0; i < parts; ++i) {
      const Part part = cut(plan, operand, i);
      ASSERT_EQ(part.first, next);
      ASSERT_TRUE(trees.insert(part.tree).second) << "a tree has one part";
      ASSERT_EQ(tree_of(plan, operand, i), part.tree);
      const std::uint32_t weight = weight_of(one, part.tree);
      ASSERT_GT(weight, 0u);
      if (i > 0 && part.count > 0) {
        ASSERT_EQ(part.first % kCutElements, 0u);
      }
      if (parts > 1) {
        const double share = static_cast<double>(operand.count) * weight / 65536;
        ASSERT_LE(std::abs(static_cast<double>(part.count) - share), 2.0 * kCutElements);
      }
      next += part.count;
    }
    ASSERT_EQ(next, operand.count);
    ASSERT_EQ(cut(plan, operand, 0).tree, home_tree(plan, operand));
  }
}

// Two of three trees have result trees.
Partition with_result_trees() {
  Partition plan = even_partition(3, 1 << 16);
  plan.trees = 5;
  plan.result_trees = {4, kNoTree, 3, kNoTree, kNoTree};
  return plan;
}

TEST(Cut, InOrderEveryTreeHasTheSameElementsForAllTags) {
  constexpr std::uint64_t kBlocks = 8;
  Partition plan = weighted_partition({kWeightUnit / 4, kWeightUnit / 2, kWeightUnit / 4}, 0);
  plan.classes.back().in_order = true;
  ASSERT_TRUE(valid(plan));
  std::set<std::uint32_t> homes;
  for (std::uint32_t tag = 0; tag < 32; ++tag) {
    const Operand operand{0, tag, ElementType::kF32, kBlocks * kCutElements - 1};
    homes.insert(home_tree(plan, operand));
    for (std::uint32_t i = 0; i < 3; ++i) {
      const Part part = cut(plan, operand, i);
      const std::uint64_t first = std::array{0, 2, 6}[part.tree] * kCutElements;
      const std::uint64_t end = std::array{2, 6, 8}[part.tree] * kCutElements;
      EXPECT_EQ(part.first, first);
      EXPECT_EQ(part.count, std::min(end, operand.count) - first);
    }
  }
  EXPECT_EQ(homes.size(), 3u) << "any tree may be the first to hear of an operation";
  plan.classes.back().divided = false;
  EXPECT_FALSE(valid(plan)) << "whole operations have no order";
}

TEST(Cut, ResultPartsHaveTheElementsOfTheirSums) {
  const Partition plan = with_result_trees();
  ASSERT_TRUE(valid(plan));
  const auto expect_pairs = [&](const Operand& operand, std::uint32_t sums) {
    const std::uint32_t parts = part_count(plan, operand);
    std::set<std::uint32_t> trees, results;
    for (std::uint32_t i = 0; i < parts; ++i) {
      const Part part = cut(plan, operand, i);
      EXPECT_TRUE(trees.insert(part.tree).second);
      EXPECT_EQ(tree_of(plan, operand, i), part.tree);
      const std::uint32_t other = other_part(plan, operand, i);
      EXPECT_EQ(other == kNoPart, part.tree == 1) << "it carries its own results";
      if (other == kNoPart) continue;
      EXPECT_EQ(other_part(plan, operand, other), i);
      EXPECT_EQ(other < sums, i >= sums) << "sums come first";
      EXPECT_EQ(cut(plan, operand, other).first, part.first);
      EXPECT_EQ(cut(plan, operand, other).count, part.count);
      if (i < sums) {
        EXPECT_EQ(cut(plan, operand, other).tree, plan.result_tree(part.tree));
      }
    }
    return parts;
  };
  for (std::uint32_t tag = 0; tag < 20; ++tag) {
    EXPECT_EQ(expect_pairs({0, tag, ElementType::kF32, 1 << 20}, 3), 5u) << "divided";
    const Operand whole{0, tag, ElementType::kF32, 100};
    EXPECT_EQ(expect_pairs(whole, 1), home_tree(plan, whole) == 1 ? 1u : 2u);
  }
}

TEST(Cut, AResultTreeCarriesTheResultsOfOneTreeAndNothingElse) {
  EXPECT_EQ(with_result_trees().sum_tree(3), 2u);
  EXPECT_EQ(with_result_trees().sum_tree(0), kNoTree);
  const auto is_valid_with = [](std::vector<std::uint32_t> result_trees) {
    Partition plan = with_result_trees();
    plan.result_trees = std::move(result_trees);
    return valid(plan);
  };
  EXPECT_TRUE(is_valid_with({}));
  EXPECT_FALSE(is_valid_with({4, kNoTree, 3})) << "of every tree";
  EXPECT_FALSE(is_valid_with({5, kNoTree, 3, kNoTree, kNoTree})) << "no such tree";
  EXPECT_FALSE(is_valid_with({4, kNoTree, 4, kNoTree, kNoTree})) << "of two trees";
  EXPECT_FALSE(is_valid_with({4, kNoTree, kNoTree, kNoTree, 3})) << "of a result tree";
  EXPECT_FALSE(is_valid_with({1, kNoTree, 3, kNoTree, kNoTree})) << "it sums, too";
  Partition plan = with_result_trees();
  plan.homes = {{7, 8, 3}};
  EXPECT_FALSE(valid(plan)) << "a home sums";
}

TEST(Cut, TheClassIsTheFirstThatTheBytesFit) {
  Partition plan = even_partition(3, 0);
  plan.classes.insert(plan.classes.begin(),
                      {{4096, false, {1}, {65536}}, {65536, false, {2}, {65536}}});
  ASSERT_TRUE(valid(plan));
  for (const auto& [type, count, tree] : {std::tuple{ElementType::kF32, 1024, 1},
                                          {ElementType::kF32, 1025, 2},
                                          {ElementType::kF64, 512, 1},
                                          {ElementType::kF64, 513, 2},
                                          {ElementType::kI8, 0, 1},
                                          {ElementType::kI8, 65536, 2}}) {
    const Operand operand{0, 7, type, static_cast<std::uint64_t>(count)};
    EXPECT_EQ(part_count(plan, operand), 1u);
    EXPECT_EQ(home_tree(plan, operand), static_cast<std::uint32_t>(tree)) << count;
  }
  EXPECT_EQ(part_count(plan, {0, 7, ElementType::kI8, 65537}), 3u);
  EXPECT_EQ(part_count(plan, {0, 7, ElementType::kF64, UINT64_MAX}), 3u) << "no overflow";
}

TEST(Cut, SmallOperationsGoWholeToTheirHome) {
  const Partition plan = even_partition(4, 1 << 20);
  const Operand small{0, 17, ElementType::kF32, (1 << 18) - 1};
  const Operand large{0, 17, ElementType::kF32, 1 << 18};
  EXPECT_EQ(part_count(plan, small), 1u);
  EXPECT_EQ(cut(plan, small, 0).count, small.count);
  EXPECT_EQ(part_count(plan, large), 4u);
  EXPECT_EQ(home_tree(plan, small), home_tree(plan, large)) << "one shard sees who disagrees";
}

TEST(Cut, KnownTensorsGoToTheTreesOfThePlan) {
  Partition plan = even_partition(4, 1 << 16);
  plan.homes = {{3, 400, 2}, {5, 1 << 20, 1}, {9, 801, 0}};
  ASSERT_TRUE(valid(plan));
  const Partition unknowing = even_partition(4, 1 << 16);
  const auto same = [&](const Operand& operand) {
    return home_tree(plan, operand) == home_tree(unknowing, operand);
  };
  for (std::uint32_t tag : {3u, 5u, 9u})
    ASSERT_NE(home_tree(unknowing, {.tag = tag}), plan.homes[tag / 4].tree);
  EXPECT_EQ(cut(plan, {0, 3, ElementType::kF32, 100}, 0).tree, 2u);
  EXPECT_EQ(cut(plan, {0, 3, ElementType::kI8, 400}, 0).tree, 2u) << "bytes count";
  EXPECT_TRUE(same({0, 3, ElementType::kF32, 101}));
  EXPECT_TRUE(same({0, 4, ElementType::kF32, 100}));
  EXPECT_TRUE(same({1, 3, ElementType::kF32, 100})) << "another group's tag";
  EXPECT_TRUE(same({0, 9, ElementType::kF64, 100})) << "no whole number of its elements";
  EXPECT_TRUE(same({0, 5, ElementType::kF32, 1 << 18})) << "it is divided";
  EXPECT_EQ(part_count(plan, {0, 5, ElementType::kF32, 1 << 18}), 4u);
  plan.homes[1].tree = 4;
  EXPECT_FALSE(valid(plan));
  plan.homes[1] = {3, 1, 0};
  EXPECT_FALSE(valid(plan)) << "a tag twice";
}

// Releases must agree on it: these are the homes and edges of version 0.1.
TEST(Cut, IsWhatItAlwaysWas) {
  const Partition plan = weighted_partition({10000, 20000, 30000, 5536}, 1 << 16);
  std::vector<std::uint32_t> homes;
  for (std::uint32_t tag = 0; tag < 10; ++tag) homes.push_back(home_tree(plan, {.tag = tag}));
  EXPECT_EQ(homes, (std::vector<std::uint32_t>{0, 2, 1, 2, 2, 0, 2, 1, 3, 2}));
  const Operand operand{0, 3, ElementType::kF32, 1'000'000};
  std::vector<std::uint64_t> parts;
  for (std::uint32_t i = 0; i < part_count(plan, operand); ++i) {
    const Part part = cut(plan, operand, i);
    parts.insert(parts.end(), {part.tree, part.first});
  }
  EXPECT_EQ(parts, (std::vector<std::uint64_t>{2, 0, 3, 458752, 0, 544768, 1, 696320}));
}

TEST(Cut, HomesFollowTheWeightsForAnyStrideOfTags) {
  const std::vector<std::uint32_t> weights = {32768, 16384, 8192, 8192};
  const Partition plan = weighted_partition(weights, 0);
  for (std::uint32_t stride : {1u, 2u, 4u, 16u, 1000u, 4096u}) {
    std::vector<int> hits(4);
    for (std::uint32_t i = 0; i < 1024; ++i) ++hits[home_tree(plan, {.tag = i * stride})];
    for (std::size_t tree = 0; tree < 4; ++tree) {
      EXPECT_NEAR(hits[tree], 1024.0 * weights[tree] / 65536, 40) << "stride " << stride;
    }
  }
}

TEST(Cut, PlansFromOutsideAreChecked) {
  EXPECT_TRUE(valid(even_partition(7, 0)));
  EXPECT_TRUE(valid(even_partition(kMaxTrees, 1 << 20)));
  EXPECT_FALSE(valid(Partition{}));
  EXPECT_FALSE(valid(Partition{1, {}})) << "no class";
  const auto wrong = [](auto change) {
    Partition plan = even_partition(3, 4096);
    change(plan);
    return !valid(plan);
  };
  EXPECT_FALSE(wrong([](Partition&) {}));
  EXPECT_TRUE(wrong([](Partition& plan) { plan.trees = 2; }));
  EXPECT_TRUE(wrong([](Partition& plan) { plan.trees = kMaxTrees + 1; }));
  EXPECT_TRUE(wrong([](Partition& plan) { plan.classes.pop_back(); })) << "nothing for large ones";
  EXPECT_TRUE(wrong([](Partition& plan) { plan.classes[0].max_bytes = kAnySize; }));
  EXPECT_TRUE(
      wrong([](Partition& plan) { plan.classes.resize(kMaxClasses + 1, plan.classes[1]); }));
  EXPECT_TRUE(wrong([](Partition& plan) { plan.classes[1].trees = {0, 2, 1}; }));
  EXPECT_TRUE(wrong([](Partition& plan) { plan.classes[1].trees = {0, 1, 1}; }));
  EXPECT_TRUE(wrong([](Partition& plan) { plan.classes[1].trees = {0, 1, 3}; }));
  EXPECT_TRUE(wrong([](Partition& plan) { plan.classes[1].trees = {}; }));
  EXPECT_TRUE(wrong([](Partition& plan) { plan.classes[1].trees = {0, 1}; }));
  EXPECT_TRUE(wrong([](Partition& plan) { plan.classes[1].weights = {65536, 0, 0}; }));
  EXPECT_TRUE(wrong([](Partition& plan) { plan.classes[1].weights = {1, 1, 1}; }));
  EXPECT_TRUE(wrong([](Partition& plan) { plan.classes[0] = {.max_bytes = 1}; }));
}

}  // namespace
}  // namespace tally::protocol
