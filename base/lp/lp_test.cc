#include "base/lp/lp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace tally::lp {
namespace {

class LinearProgram : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_available()) GTEST_SKIP() << "this build has no Clp";
  }
};

Answer answer_of(const Program& program) {
  const auto solution = minimize(program);
  EXPECT_TRUE(solution.ok()) << solution.error().message;
  return solution.ok() ? solution->answer : Answer::kInfeasible;
}

// The solution, after a check of the rows, the limits and the cost.
Solution optimum_of(const Program& program) {
  const auto solution = minimize(program);
  EXPECT_TRUE(solution.ok()) << solution.error().message;
  if (!solution.ok()) return {};
  EXPECT_EQ(solution->answer, Answer::kOptimal);
  EXPECT_EQ(solution->values.size(), program.variables.size());
  if (solution->values.size() != program.variables.size()) return {};
  double cost = 0;
  for (std::size_t i = 0; i < program.variables.size(); ++i) {
    cost += program.variables[i].cost * solution->values[i];
    EXPECT_GE(solution->values[i], program.variables[i].lower);
    EXPECT_LE(solution->values[i], program.variables[i].upper);
  }
  EXPECT_DOUBLE_EQ(solution->cost, cost);
  for (const Row& row : program.rows) {
    double sum = 0;
    for (const Term& term : row.terms) sum += term.factor * solution->values[term.variable];
    EXPECT_GE(sum, row.lower - kTolerance);
    EXPECT_LE(sum, row.upper + kTolerance);
  }
  return *solution;
}

// The least maximum of functions (a constant, then one factor for each share) of shares whose sum
// is at most 1. The last variable is the maximum.
Program least_maximum(std::size_t shares, const std::vector<std::vector<double>>& functions) {
  Program program{std::vector<Variable>(shares + 1), {{{}, -kUnlimited, 1}}};
  program.variables[shares].cost = 1;
  for (std::size_t i = 0; i < shares; ++i) program.rows[0].terms.push_back({i, 1});
  for (const auto& function : functions) {
    Row row{{{shares, -1}}, -kUnlimited, -function[0]};
    for (std::size_t i = 0; i < shares; ++i) row.terms.push_back({i, function[i + 1]});
    program.rows.push_back(row);
  }
  return program;
}

TEST_F(LinearProgram, BalancesTwoFunctions) {
  // x at one link, 1 - x at another that is three times as fast.
  const Solution found = optimum_of(least_maximum(1, {{0, 1}, {1.0 / 3, -1.0 / 3}}));
  EXPECT_NEAR(found.cost, 0.25, 1e-12);
  EXPECT_NEAR(found.values.at(0), 0.25, 1e-12);
}

TEST_F(LinearProgram, KeepsVariablesThatOnlyHarmAtZero) {
  const Solution found = optimum_of(least_maximum(2, {{0.5, 1, 0}, {0.1, 0, 2}}));
  EXPECT_NEAR(found.cost, 0.5, 1e-12);
  EXPECT_EQ(found.values.at(0), 0);
}

// Shares of 1 over links with random factors, against all shares in steps of 1/24.
TEST_F(LinearProgram, IsNotWorseThanAnySharesOfAGrid) {
  constexpr int kSteps = 24;
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<std::vector<double>> functions;
    for (int row = 0; row < 5; ++row) {
      const auto factor = [&] { return static_cast<double>(random() % 8); };
      const double first = factor();
      functions.push_back({first, factor() - first, factor() - first});
    }
    const auto maximum_at = [&](double a, double b) {
      double most = 0;
      for (const auto& f : functions) most = std::max(most, f[0] + f[1] * a + f[2] * b);
      return most;
    };
    const Solution found = optimum_of(least_maximum(2, functions));
    EXPECT_NEAR(found.cost, maximum_at(found.values.at(0), found.values.at(1)), 1e-9);
    double least = 1e9;
    for (int a = 0; a <= kSteps; ++a) {
      for (int b = 0; a + b <= kSteps; ++b) {
        least = std::min(least, maximum_at(a / double{kSteps}, b / double{kSteps}));
      }
    }
    EXPECT_LE(found.cost, least + 1e-9);
    EXPECT_GE(found.cost, least - 0.6) << "a step of the grid changes a function by less";
  }
}

TEST_F(LinearProgram, RespectsLimitsOfVariablesAndEqualities) {
  // One variable has no limits, one is negative, and one has only an upper limit.
  const Solution found = optimum_of({{{1, -kUnlimited, kUnlimited}, {1, -3, -1}, {-2, 0, 4}},
                                     {{{{0, 1}, {1, 1}, {2, 1}}, 1.5, 1.5}}});
  EXPECT_NEAR(found.values.at(2), 4, 1e-12);
  EXPECT_NEAR(found.values.at(0) + found.values.at(1), -2.5, 1e-12);
  EXPECT_NEAR(found.cost, -10.5, 1e-12);
}

TEST_F(LinearProgram, AddsUpTermsOfOneVariable) {
  EXPECT_NEAR(optimum_of({{{1}, {1}}, {{{{0, 1}, {1, 0.5}, {0, 1}}, 4, kUnlimited}}}).cost, 2,
              1e-12);
}

TEST_F(LinearProgram, SolvesProgramsWithoutRowsOrVariables) {
  EXPECT_EQ(optimum_of({}).cost, 0);
  EXPECT_EQ(optimum_of({{{2, 3, 5}, {-1, 3, 5}}, {}}).cost, 1);
  EXPECT_EQ(optimum_of({{}, {{{}, -1, 1}}}).cost, 0);
  EXPECT_EQ(answer_of({{}, {{{}, 1, 2}}}), Answer::kInfeasible);
  EXPECT_EQ(answer_of({{{-1}}, {}}), Answer::kUnbounded);
}

TEST_F(LinearProgram, FindsThatNoValuesMeetTheRows) {
  EXPECT_EQ(answer_of({{{1}, {1}}, {{{{0, 1}, {1, 1}}, 3, kUnlimited}, {{{0, 1}, {1, 1}}, 0, 2}}}),
            Answer::kInfeasible);
  EXPECT_EQ(answer_of({{{1, 0, 1}}, {{{{0, 1}}, 2, kUnlimited}}}), Answer::kInfeasible);
}

TEST_F(LinearProgram, FindsThatTheCostFallsWithoutEnd) {
  EXPECT_EQ(answer_of({{{-1}, {1}}, {{{{0, 1}, {1, -1}}, 0, kUnlimited}}}), Answer::kUnbounded);
  EXPECT_EQ(answer_of({{{1, -kUnlimited, kUnlimited}, {0}}, {{{{0, 1}, {1, 1}}, 0, 0}}}),
            Answer::kUnbounded);
}

// E. M. L. Beale, "Cycling in the dual simplex algorithm", 1955: simplex methods without a rule
// against it repeat six bases for ever.
TEST_F(LinearProgram, EndsWhereSimplexMethodsCycle) {
  const Solution found = optimum_of({{{-0.75}, {150}, {-0.02}, {6}},
                                     {{{{0, 0.25}, {1, -60}, {2, -0.04}, {3, 9}}, -kUnlimited, 0},
                                      {{{0, 0.5}, {1, -90}, {2, -0.02}, {3, 3}}, -kUnlimited, 0},
                                      {{{2, 1}}, -kUnlimited, 1}}});
  EXPECT_NEAR(found.cost, -0.05, 1e-12);
}

// Every basis of an assignment is degenerate: half of its variables are 0.
TEST_F(LinearProgram, AssignsAsWellAsTheBestOfAllPermutations) {
  constexpr std::size_t kSize = 6;
  std::mt19937 random(11);
  for (int trial = 0; trial < 50; ++trial) {
    Program program{{}, std::vector<Row>(2 * kSize, {{}, 1, 1})};
    for (std::size_t i = 0; i < kSize * kSize; ++i) {
      program.variables.push_back({static_cast<double>(random() % 10)});
      program.rows[i / kSize].terms.push_back({i, 1});
      program.rows[kSize + i % kSize].terms.push_back({i, 1});
    }
    std::vector<std::size_t> order(kSize);
    std::iota(order.begin(), order.end(), 0);
    double least = 1e9;
    do {
      double cost = 0;
      for (std::size_t i = 0; i < kSize; ++i) cost += program.variables[i * kSize + order[i]].cost;
      least = std::min(least, cost);
    } while (std::next_permutation(order.begin(), order.end()));
    const Solution found = optimum_of(program);
    EXPECT_NEAR(found.cost, least, 1e-9);
    EXPECT_EQ(found.values, optimum_of(program).values) << "the same program, the same solution";
  }
}

// Two groups give each of three places the same part, as plans of GPU machines do. The cost is near
// 1, and the factors of places that are too slow are as large as 1e15.
TEST_F(LinearProgram, MeetsRowsBesideFactorsThatDifferALot) {
  constexpr std::size_t kPlaces = 3, kTime = 3 * kPlaces;
  std::mt19937 random(13);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    double factors[2][kPlaces], unit = kUnlimited;
    for (std::size_t place = 0; place < kPlaces; ++place) {
      for (auto& group : factors) group[place] = std::pow(10, random() % 150 / 10.0);
      unit = std::min(unit, std::max(factors[0][place], factors[1][place]));
    }
    Program program{std::vector<Variable>(kTime + 1), {{{}, 1, 1}}};
    program.variables[kTime].cost = 1;
    for (std::size_t place = 0; place < kPlaces; ++place) {
      program.rows[0].terms.push_back({2 * kPlaces + place, 1});
      for (std::size_t group = 0; group < 2; ++group) {
        const std::size_t share = group * kPlaces + place;
        program.rows.push_back({{{2 * kPlaces + place, -1}, {share, 1}}, 0, 0});
        program.rows.push_back(
            {{{share, factors[group][place] / unit}, {kTime, -1}}, -kUnlimited, 0});
      }
    }
    optimum_of(program);
  }
}

TEST_F(LinearProgram, RefusesWhatIsNoProgram) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto message_of = [](const Program& program) {
    const auto solution = minimize(program);
    EXPECT_EQ(solution.status(), Status::kInvalidArgument);
    return solution.ok() ? "" : solution.error().message;
  };
  EXPECT_EQ(message_of({{{1, 0, 1}, {1, 2, 1}}, {}}),
            "variable 1 of a linear program has the limits 2 to 1");
  EXPECT_EQ(message_of({{{nan}}, {}}),
            "variable 0 of a linear program has the cost nan: must be finite");
  EXPECT_EQ(message_of({{}, {{{}, nan, 1}}}), "row 0 of a linear program has the limits nan to 1");
  EXPECT_EQ(message_of({{}, {{{}, kUnlimited, kUnlimited}}}),
            "row 0 of a linear program has the limits inf to inf");
  for (const Term term : {Term{1, 1}, Term{0, nan}, Term{0, kUnlimited}}) {
    EXPECT_NE(
        message_of({{{1}}, {{{term}, 0, 1}}}).find("must be finite, and the variable one of 1"),
        std::string::npos);
  }
}

TEST_F(LinearProgram, StopsAtTheBoundOfIterationsAndPrintsNothing) {
  const Program program = least_maximum(2, {{1, 1, -1}, {2, -2, 1}, {3, -1, -2}});
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const auto stopped = minimize(program, {1, 60});
  const auto solved = minimize(program);
  const Answer infeasible = answer_of({{{1, 0, 1}}, {{{{0, 1}}, 2, kUnlimited}}});
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_TRUE(solved.ok());
  EXPECT_EQ(infeasible, Answer::kInfeasible);
  ASSERT_EQ(stopped.status(), Status::kRefused);
  EXPECT_EQ(stopped.error().message,
            "a linear program of 3 variables and 4 rows was not solved in 1 iterations or 60 s");
}

TEST(LinearProgramWithoutClp, IsRefusedByName) {
  if (is_available()) GTEST_SKIP() << "this build has Clp";
  const auto refused = minimize({});
  EXPECT_EQ(refused.status(), Status::kUnsupported);
  EXPECT_NE(refused.error().message.find("coinor-libclp-dev"), std::string::npos);
}

}  // namespace
}  // namespace tally::lp
