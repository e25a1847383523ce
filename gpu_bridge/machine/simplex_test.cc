#include "gpu_bridge/machine/simplex.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tally::host {
namespace {

double value_of(const std::vector<double>& row, const std::vector<double>& variables) {
  double value = row[0];
  for (std::size_t i = 0; i < variables.size(); ++i) value += row[i + 1] * variables[i];
  return value;
}

double maximum_of(const MaximumProgram& program, const std::vector<double>& variables) {
  double most = 0;
  for (const auto& row : program.functions) most = std::max(most, value_of(row, variables));
  return most;
}

TEST(Simplex, BalancesTwoFunctions) {
  // x at one link, 1 - x at another that is three times as fast.
  const MaximumProgram program{1, {{1, -1}}, {{0, 1}, {1.0 / 3, -1.0 / 3}}};
  const Optimum found = minimize_maximum(program);
  EXPECT_NEAR(found.maximum, 0.25, 1e-12);
  EXPECT_NEAR(found.variables[0], 0.25, 1e-12);
}

TEST(Simplex, KeepsVariablesThatOnlyHarmAtZero) {
  const Optimum found = minimize_maximum({2, {{1, -1, -1}}, {{0.5, 1, 0}, {0.1, 0, 2}}});
  EXPECT_NEAR(found.maximum, 0.5, 1e-12);
  EXPECT_NEAR(found.variables[0], 0, 1e-12);
}

TEST(Simplex, SolvesAProgramWithoutVariables) {
  EXPECT_DOUBLE_EQ(minimize_maximum({0, {}, {{0.5}, {0.7}}}).maximum, 0.7);
}

// Shares of 1 over links with random coefficients, against all shares in steps of 1/24.
TEST(Simplex, IsNotWorseThanAnySharesOfAGrid) {
  constexpr int kSteps = 24;
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    MaximumProgram program{2, {{1, -1, -1}}, {}};
    for (int row = 0; row < 5; ++row) {
      const auto coefficient = [&] { return static_cast<double>(random() % 8); };
      const double first = coefficient();
      program.functions.push_back({first, coefficient() - first, coefficient() - first});
    }
    const Optimum found = minimize_maximum(program);
    EXPECT_NEAR(found.maximum, maximum_of(program, found.variables), 1e-9);
    EXPECT_GE(value_of(program.nonnegative[0], found.variables), -1e-9);
    double least = 1e9;
    for (int a = 0; a <= kSteps; ++a) {
      for (int b = 0; a + b <= kSteps; ++b) {
        least = std::min(least, maximum_of(program, {a / double{kSteps}, b / double{kSteps}}));
      }
    }
    EXPECT_LE(found.maximum, least + 1e-9);
    EXPECT_GE(found.maximum, least - 0.6) << "a step of the grid changes a function by less";
  }
}

}  // namespace
}  // namespace tally::host
