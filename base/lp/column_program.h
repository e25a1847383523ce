// A linear program that grows by columns, for column generation: solve, find from the dual values a
// column that lowers the cost, add it, solve again. Each solution starts at the one before (Clp's
// primal simplex method), so a few added columns take a few iterations.
//
// As in lp.h the caller scales, a build may lack Clp, and the same calls have the same solutions.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/lp/lp.h"

namespace tally::lp {

struct RowLimits {
  double lower = -kUnlimited;
  double upper = kUnlimited;
};

struct RowTerm {
  std::size_t row = 0;
  double factor = 0;
};

// A variable, and its factors in the rows. Terms of one row are added up.
struct Column {
  Variable variable;
  std::vector<RowTerm> terms;
};

struct ColumnSolution {
  Answer answer = Answer::kOptimal;
  // Only when the answer is kOptimal:
  double cost = 0;
  std::vector<double> values;  // by column
  // By row: by how much the cost grows per unit by which both limits of the row rise. A column of
  // cost c lowers the cost only if c is less than the sum of dual * factor over its terms.
  std::vector<double> duals;
};

class ColumnProgram {
 public:
  // Errors: as those of minimize() in lp.h, kUnsupported without Clp included.
  static Result<ColumnProgram> of(std::vector<RowLimits> rows);

  ColumnProgram(ColumnProgram&&) noexcept;
  ColumnProgram& operator=(ColumnProgram&&) noexcept;
  ~ColumnProgram();

  // Errors: kInvalidArgument names what is wrong. The program is then as before.
  Outcome add(Column column);
  std::size_t columns() const;

  // Errors: as those of minimize() in lp.h.
  Result<ColumnSolution> minimize(const Bounds& bounds = {});

 private:
  struct State;
  explicit ColumnProgram(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace tally::lp
