#include "control/plan/groups/throttle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace tally::plan::groups {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A condition of the rates: factors * rates <= limit.
struct Condition {
  std::vector<double> factors;
  double limit = 0;
};

std::vector<Condition> conditions(const std::vector<Exchange>& groups, double most,
                                  double staleness) {
  const std::size_t count = groups.size();
  std::vector<Condition> all = {{std::vector<double>(count, 1), most}};
  for (std::size_t g = 0; g < count; ++g) {
    Condition fast{std::vector<double>(count, 0), 1 / groups[g].period};
    fast.factors[g] = 1;
    Condition positive{std::vector<double>(count, 0), 0};
    positive.factors[g] = -1;
    Condition fresh{std::vector<double>(count, 1), 0};
    fresh.factors[g] = -staleness;
    all.insert(all.end(), {fast, positive, fresh});
  }
  return all;
}

// Solves factors * rates = limit for as many conditions as rates. Empty when they depend on each
// other.
std::vector<double> corner(std::vector<Condition> rows) {
  const std::size_t count = rows.size();
  for (std::size_t column = 0; column < count; ++column) {
    std::size_t pivot = column;
    for (std::size_t i = column; i < count; ++i) {
      if (std::abs(rows[i].factors[column]) > std::abs(rows[pivot].factors[column])) pivot = i;
    }
    if (std::abs(rows[pivot].factors[column]) < 1e-9) return {};
    std::swap(rows[pivot], rows[column]);
    for (std::size_t i = 0; i < count; ++i) {
      if (i == column) continue;
      const double times = rows[i].factors[column] / rows[column].factors[column];
      for (std::size_t k = 0; k < count; ++k) rows[i].factors[k] -= times * rows[column].factors[k];
      rows[i].limit -= times * rows[column].limit;
    }
  }
  std::vector<double> rates;
  for (std::size_t i = 0; i < count; ++i) rates.push_back(rows[i].limit / rows[i].factors[i]);
  return rates;
}

// The most samples per second of all corners of the conditions: the optimum of a linear program.
double best_corner(const std::vector<Exchange>& groups, double most, double staleness) {
  const std::vector<Condition> all = conditions(groups, most, staleness);
  double best = 0;
  for (std::uint32_t set = 0; set < 1u << all.size(); ++set) {
    if (static_cast<std::size_t>(__builtin_popcount(set)) != groups.size()) continue;
    std::vector<Condition> chosen;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if ((set >> i & 1) != 0) chosen.push_back(all[i]);
    }
    const std::vector<double> rates = corner(std::move(chosen));
    if (rates.empty()) continue;
    bool is_possible = true;
    for (const Condition& one : all) {
      const double value = std::inner_product(rates.begin(), rates.end(), one.factors.begin(), 0.0);
      is_possible &= value <= one.limit + 1e-9;
    }
    if (!is_possible) continue;
    double samples = 0;
    for (std::size_t g = 0; g < rates.size(); ++g) samples += groups[g].samples * rates[g];
    best = std::max(best, samples);
  }
  return best;
}

TEST(Throttle, EqualsTheLinearProgram) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<Exchange> groups(1 + random() % 3);
    for (Exchange& group : groups) {
      group.period = 1 + static_cast<double>(random() % 64) / 16;
      group.samples = 1 + static_cast<double>(random() % 6);
    }
    const double most = 0.1 + static_cast<double>(random() % 32) / 16;
    const double staleness = static_cast<double>(random() % 6) / 2;
    const auto found = throttle(groups, most, staleness);
    if (static_cast<double>(groups.size()) > 1 + staleness) {
      EXPECT_FALSE(found.has_value());
      continue;
    }
    ASSERT_TRUE(found.has_value());
    EXPECT_NEAR(found->throughput, best_corner(groups, most, staleness), 1e-7) << round;
    for (const Condition& one : conditions(groups, most, staleness)) {
      const double value =
          std::inner_product(found->rates.begin(), found->rates.end(), one.factors.begin(), 0.0);
      EXPECT_LE(value, one.limit + 1e-9) << round;
    }
  }
}

TEST(Throttle, GroupsWithTheMostSamplesGoFirst) {
  const std::vector<Exchange> groups = {{1, 2}, {2, 5}, {1, 3}};
  const auto found = throttle(groups, 1, kInfinity);
  ASSERT_TRUE(found.has_value());
  EXPECT_THAT(found->rates, ElementsAre(DoubleEq(0), DoubleEq(0.5), DoubleEq(0.5)));
  EXPECT_DOUBLE_EQ(found->throughput, 4);
}

TEST(Throttle, TheSlowestGroupBoundsTheOthersByStaleness) {
  const std::vector<Exchange> groups = {{1, 1}, {10, 1}};
  const auto found = throttle(groups, kInfinity, 4);
  ASSERT_TRUE(found.has_value());
  EXPECT_THAT(found->rates, ElementsAre(DoubleEq(0.4), DoubleEq(0.1)));
}

TEST(Throttle, NoStalenessMeansOneGroup) {
  EXPECT_TRUE(throttle(std::vector<Exchange>{{1, 1}}, 10, 0).has_value());
  EXPECT_FALSE(throttle(std::vector<Exchange>{{1, 1}, {1, 1}}, 10, 0).has_value());
}

}  // namespace
}  // namespace tally::plan::groups
