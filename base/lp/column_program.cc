#include "base/lp/column_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#ifdef TALLY_CLP
#include "base/lp/clp_model.h"
#endif

namespace tally::lp {

#ifdef TALLY_CLP

struct ColumnProgram::State {
  Model model;
  std::vector<RowLimits> rows;
  std::vector<Column> columns;  // terms by ascending row, each row once
  bool is_solved = false;       // the model has a basis
};

namespace {

bool are_limits(double lower, double upper) {
  return lower <= upper && lower < kUnlimited && upper > -kUnlimited;
}

void add_up_terms(std::vector<RowTerm>& terms) {
  std::stable_sort(terms.begin(), terms.end(),
                   [](const RowTerm& a, const RowTerm& b) { return a.row < b.row; });
  std::vector<RowTerm> sums;
  for (const RowTerm& term : terms) {
    if (sums.empty() || sums.back().row != term.row) sums.push_back({term.row, 0});
    sums.back().factor += term.factor;
  }
  terms = std::move(sums);
}

Outcome check_column(const Column& column, std::size_t index, std::size_t rows) {
  const Variable& variable = column.variable;
  if (!are_limits(variable.lower, variable.upper) || !std::isfinite(variable.cost)) {
    return invalid(
        fmt::format("column {} of a linear program has the limits {} to {} and the cost {}", index,
                    variable.lower, variable.upper, variable.cost));
  }
  for (const RowTerm& term : column.terms) {
    if (term.row < rows && std::isfinite(term.factor)) continue;
    return invalid(fmt::format(
        "column {} of a linear program has the factor {} in row {}: must be finite, and the row "
        "one of {}",
        index, term.factor, term.row, rows));
  }
  return Unit{};
}

}  // namespace

Result<ColumnProgram> ColumnProgram::of(std::vector<RowLimits> rows) {
  std::vector<double> lower, upper;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!are_limits(rows[i].lower, rows[i].upper)) {
      return invalid(fmt::format("row {} of a linear program has the limits {} to {}", i,
                                 rows[i].lower, rows[i].upper));
    }
    lower.push_back(clp_limit(rows[i].lower));
    upper.push_back(clp_limit(rows[i].upper));
  }
  if (rows.size() > kMostTerms) {
    return invalid(
        fmt::format("a linear program has {} rows: at most {}", rows.size(), kMostTerms));
  }
  return without_exceptions([&]() -> Result<ColumnProgram> {
    auto state = std::make_unique<State>(State{new_model(), std::move(rows), {}});
    const CoinBigIndex none = 0;
    Clp_loadProblem(state->model.get(), 0, static_cast<int>(state->rows.size()), &none, nullptr,
                    nullptr, nullptr, nullptr, nullptr, lower.data(), upper.data());
    return ColumnProgram(std::move(state));
  });
}

Outcome ColumnProgram::add(Column column) {
  State& state = *state_;
  if (auto fine = check_column(column, state.columns.size(), state.rows.size()); !fine) return fine;
  add_up_terms(column.terms);
  std::vector<int> rows;
  std::vector<double> factors;
  for (const RowTerm& term : column.terms) {
    rows.push_back(static_cast<int>(term.row));
    factors.push_back(term.factor);
  }
  const CoinBigIndex starts[] = {0, static_cast<CoinBigIndex>(rows.size())};
  const double lower = clp_limit(column.variable.lower), upper = clp_limit(column.variable.upper);
  return without_exceptions([&]() -> Outcome {
    Clp_addColumns(state.model.get(), 1, &lower, &upper, &column.variable.cost, starts, rows.data(),
                   factors.data());
    state.columns.push_back(std::move(column));
    return Unit{};
  });
}

std::size_t ColumnProgram::columns() const {
  return state_->columns.size();
}

Result<ColumnSolution> ColumnProgram::minimize(const Bounds& bounds) {
  State& state = *state_;
  return without_exceptions([&]() -> Result<ColumnSolution> {
    Clp_Simplex* model = state.model.get();
    set_bounds(model, bounds);
    if (state.is_solved) {
      Clp_primal(model, 0);
    } else {
      Clp_dual(model, 0);
    }
    const auto answer = answer_of(model, bounds);
    if (!answer) return answer.error();
    state.is_solved = *answer == Answer::kOptimal;
    if (!state.is_solved) return ColumnSolution{*answer, 0, {}, {}};
    ColumnSolution solution;
    const double* values = Clp_primalColumnSolution(model);
    std::vector<double> sums(state.rows.size()), sizes(state.rows.size(), 1.0);
    for (std::size_t i = 0; i < state.columns.size(); ++i) {
      const auto& [variable, terms] = state.columns[i];
      const double value = std::clamp(values[i], variable.lower, variable.upper);
      solution.values.push_back(value);
      solution.cost += variable.cost * value;
      for (const RowTerm& term : terms) {
        sums[term.row] += term.factor * value;
        sizes[term.row] += std::abs(term.factor) * std::max(1.0, std::abs(value));
      }
    }
    for (std::size_t row = 0; row < sums.size(); ++row) {
      const double slack = kTolerance * sizes[row];
      const RowLimits& limits = state.rows[row];
      if (!(sums[row] >= limits.lower - slack && sums[row] <= limits.upper + slack)) {
        return missed(model, row);
      }
    }
    const double* duals = Clp_dualRowSolution(model);
    solution.duals.assign(duals, duals + state.rows.size());
    return solution;
  });
}

#else

struct ColumnProgram::State {};

Result<ColumnProgram> ColumnProgram::of(std::vector<RowLimits>) {
  return lp::minimize({}).error();
}

Outcome ColumnProgram::add(Column) {
  return lp::minimize({}).error();
}

std::size_t ColumnProgram::columns() const {
  return 0;
}

Result<ColumnSolution> ColumnProgram::minimize(const Bounds&) {
  return lp::minimize({}).error();
}

#endif

ColumnProgram::ColumnProgram(std::unique_ptr<State> state) : state_(std::move(state)) {}
ColumnProgram::ColumnProgram(ColumnProgram&&) noexcept = default;
ColumnProgram& ColumnProgram::operator=(ColumnProgram&&) noexcept = default;
ColumnProgram::~ColumnProgram() = default;

}  // namespace tally::lp
