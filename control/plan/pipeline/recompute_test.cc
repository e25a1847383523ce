#include "control/plan/pipeline/recompute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace tally::plan::pipeline {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<Item> random_items(std::mt19937& random, std::size_t most) {
  std::vector<Item> items(random() % (most + 1));
  for (Item& item : items) {
    item.seconds = static_cast<double>(random() % 20);
    item.saved = static_cast<double>(random() % 24) - 3;
    item.peak = static_cast<double>(random() % 16);
  }
  return items;
}

struct Totals {
  double seconds = 0;
  double saved = 0;
};

Totals totals(const std::vector<Item>& items, std::uint32_t set) {
  Totals sum;
  double peak = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if ((set >> i & 1) == 0) continue;
    sum.seconds += items[i].seconds;
    sum.saved += items[i].saved;
    peak = std::max(peak, items[i].peak);
  }
  sum.saved -= peak;
  return sum;
}

TEST(Recompute, LeastTimeEqualsTheSearchOfAllSets) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const std::vector<Item> items = random_items(random, 9);
    const double need = 1 + static_cast<double>(random() % 60);
    double best = kInfinity;
    for (std::uint32_t set = 0; set < 1u << items.size(); ++set) {
      const Totals sum = totals(items, set);
      if (sum.saved >= need) best = std::min(best, sum.seconds);
    }
    const auto choice = least_time(items, need, kInfinity);
    ASSERT_EQ(choice.has_value(), best < kInfinity) << round;
    if (!choice) continue;
    EXPECT_EQ(choice->seconds, best) << round;
    EXPECT_GE(choice->saved, need) << round;
    EXPECT_FALSE(least_time(items, need, best).has_value()) << round;
  }
}

TEST(Recompute, MostSavedEqualsTheSearchOfAllSets) {
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    const std::vector<Item> items = random_items(random, 9);
    const double budget = static_cast<double>(random() % 60);
    double best = 0;
    for (std::uint32_t set = 0; set < 1u << items.size(); ++set) {
      const Totals sum = totals(items, set);
      if (sum.seconds <= budget) best = std::max(best, sum.saved);
    }
    const Choice choice = most_saved(items, budget);
    EXPECT_EQ(choice.saved, best) << round;
    EXPECT_LE(choice.seconds, budget) << round;
  }
}

TEST(Recompute, ThinnedListsKeepAllLimits) {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    std::vector<Item> items(200);
    double all = 0;
    for (Item& item : items) {
      item.seconds = 1 + static_cast<double>(random() % 1000) / 1000;
      item.saved = 1e6 * (1 + static_cast<double>(random() % 1000));
      item.peak = 1e6;
      all += item.saved;
    }
    const auto choice = least_time(items, all / 2, kInfinity);
    ASSERT_TRUE(choice.has_value());
    EXPECT_GE(choice->saved, all / 2);
    EXPECT_LT(choice->seconds, 300 * 0.6);
    const Choice most = most_saved(items, choice->seconds);
    EXPECT_LE(most.seconds, choice->seconds);
    EXPECT_GE(most.saved, choice->saved * 0.98);
    // All of them are just enough.
    EXPECT_TRUE(least_time(items, all - 1e6, kInfinity).has_value());
    EXPECT_FALSE(least_time(items, all, kInfinity).has_value());
  }
}

TEST(Recompute, NothingToSaveIsNoChoice) {
  EXPECT_FALSE(least_time({}, 1, kInfinity).has_value());
  EXPECT_TRUE(most_saved({}, 10).items.empty());
  const std::vector<Item> useless = {{1, -5, 0}, {1, 3, 4}};
  EXPECT_FALSE(least_time(useless, 1, kInfinity).has_value());
  EXPECT_TRUE(most_saved(useless, 10).items.empty());
}

}  // namespace
}  // namespace tally::plan::pipeline
