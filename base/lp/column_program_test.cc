#include "base/lp/column_program.h"

#include <gtest/gtest.h>

#include <random>

namespace tally::lp {
namespace {

class GrowingProgram : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_available()) GTEST_SKIP() << "this build has no Clp";
  }
};

ColumnProgram program_of(std::vector<RowLimits> rows) {
  auto program = ColumnProgram::of(std::move(rows));
  EXPECT_TRUE(program.ok());
  return std::move(program).value();
}

ColumnSolution optimum_of(ColumnProgram& program) {
  auto solution = program.minimize();
  EXPECT_TRUE(solution.ok()) << solution.error().message;
  return solution.ok() ? *solution : ColumnSolution{};
}

TEST_F(GrowingProgram, LowersItsCostWithEachColumnThatTheDualValuesName) {
  ColumnProgram program = program_of({{4, kUnlimited}, {6, kUnlimited}});
  ASSERT_TRUE(program.add({{3}, {{0, 1}, {1, 1}}}).ok());
  ColumnSolution found = optimum_of(program);
  EXPECT_NEAR(found.cost, 18, 1e-9);
  EXPECT_NEAR(found.duals.at(0), 0, 1e-9);
  EXPECT_NEAR(found.duals.at(1), 3, 1e-9);
  ASSERT_TRUE(program.add({{2}, {{1, 1}}}).ok());
  found = optimum_of(program);
  EXPECT_NEAR(found.cost, 16, 1e-9);
  EXPECT_NEAR(found.values.at(0), 4, 1e-9);
  EXPECT_NEAR(found.values.at(1), 2, 1e-9);
  EXPECT_NEAR(found.duals.at(0), 1, 1e-9);
  EXPECT_NEAR(found.duals.at(1), 2, 1e-9);
}

// The columns of a random program one by one, against the same program at once. The duals must
// price every column at its cost or less, and their sum over the rows is the cost.
TEST_F(GrowingProgram, SolvesAsTheWholeProgramDoes) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const std::size_t rows = 1 + random() % 6, columns = 1 + random() % 8;
    const std::vector<RowLimits> limits(rows, {1, kUnlimited});
    ColumnProgram growing = program_of(limits);
    Program whole{{}, std::vector<Row>(rows, Row{{}, 1, kUnlimited})};
    std::vector<Column> all;
    for (std::size_t i = 0; i < columns; ++i) {
      Column column{{1.0 + static_cast<double>(random() % 9)}, {}};
      for (std::size_t row = 0; row < rows; ++row) {
        const double factor = static_cast<double>(random() % 4);
        column.terms.push_back({row, factor});
        whole.rows[row].terms.push_back({i, factor});
      }
      whole.variables.push_back(column.variable);
      all.push_back(column);
      ASSERT_TRUE(growing.add(column).ok());
      const auto found = growing.minimize();
      const auto expected = minimize(whole);
      ASSERT_TRUE(found.ok() && expected.ok());
      ASSERT_EQ(found->answer, expected->answer);
      if (found->answer != Answer::kOptimal) continue;
      EXPECT_NEAR(found->cost, expected->cost, 1e-7);
      double dual_cost = 0;
      for (const double dual : found->duals) {
        EXPECT_GE(dual, -1e-9);
        dual_cost += dual;
      }
      EXPECT_NEAR(dual_cost, found->cost, 1e-7);
      for (const Column& one : all) {
        double price = 0;
        for (const RowTerm& term : one.terms) price += term.factor * found->duals[term.row];
        EXPECT_LE(price, one.variable.cost + 1e-7);
      }
    }
    EXPECT_EQ(growing.columns(), columns);
  }
}

TEST_F(GrowingProgram, AddsUpTermsOfOneRow) {
  ColumnProgram program = program_of({{6, kUnlimited}});
  ASSERT_TRUE(program.add({{1}, {{0, 1}, {0, 2}}}).ok());
  EXPECT_NEAR(optimum_of(program).cost, 2, 1e-12);
}

TEST_F(GrowingProgram, IsInfeasibleUntilAColumnMeetsItsRows) {
  ColumnProgram program = program_of({{1, 1}});
  const auto none = program.minimize();
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->answer, Answer::kInfeasible);
  ASSERT_TRUE(program.add({{5}, {{0, 1}}}).ok());
  EXPECT_NEAR(optimum_of(program).cost, 5, 1e-12);
}

TEST_F(GrowingProgram, RefusesWhatIsNoColumn) {
  EXPECT_EQ(ColumnProgram::of({{2, 1}}).error().message,
            "row 0 of a linear program has the limits 2 to 1");
  ColumnProgram program = program_of({{0, 1}});
  EXPECT_EQ(program.add({{1}, {{1, 2}}}).error().message,
            "column 0 of a linear program has the factor 2 in row 1: must be finite, and the row "
            "one of 1");
  EXPECT_EQ(program.add({{1}, {{0, kUnlimited}}}).status(), Status::kInvalidArgument);
  EXPECT_EQ(program.add({{kUnlimited}, {}}).error().message,
            "column 0 of a linear program has the limits 0 to inf and the cost inf");
  EXPECT_EQ(program.add({{1, 2, 1}, {}}).status(), Status::kInvalidArgument);
  EXPECT_EQ(program.columns(), 0u);
}

TEST(GrowingProgramWithoutClp, IsRefusedByName) {
  if (is_available()) GTEST_SKIP() << "this build has Clp";
  const auto refused = ColumnProgram::of({});
  EXPECT_EQ(refused.status(), Status::kUnsupported);
  EXPECT_NE(refused.error().message.find("coinor-libclp-dev"), std::string::npos);
}

}  // namespace
}  // namespace tally::lp
