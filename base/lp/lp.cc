#include "base/lp/lp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#ifdef TALLY_CLP
#include "base/lp/clp_model.h"
#endif

namespace tally::lp {

#ifdef TALLY_CLP
namespace {

Outcome check_limits(std::string_view what, std::size_t index, double lower, double upper) {
  if (lower <= upper && lower < kUnlimited && upper > -kUnlimited) return Unit{};
  return invalid(
      fmt::format("{} {} of a linear program has the limits {} to {}", what, index, lower, upper));
}

Outcome check(const Program& program) {
  std::size_t terms = 0;
  for (std::size_t i = 0; i < program.variables.size(); ++i) {
    const Variable& variable = program.variables[i];
    if (auto fine = check_limits("variable", i, variable.lower, variable.upper); !fine) return fine;
    if (std::isfinite(variable.cost)) continue;
    return invalid(fmt::format("variable {} of a linear program has the cost {}: must be finite", i,
                               variable.cost));
  }
  for (std::size_t i = 0; i < program.rows.size(); ++i) {
    const Row& row = program.rows[i];
    if (auto fine = check_limits("row", i, row.lower, row.upper); !fine) return fine;
    terms += row.terms.size();
    for (const Term& term : row.terms) {
      if (term.variable < program.variables.size() && std::isfinite(term.factor)) continue;
      return invalid(fmt::format(
          "row {} of a linear program has the factor {} for variable {}: must be finite, and the "
          "variable one of {}",
          i, term.factor, term.variable, program.variables.size()));
    }
  }
  if (std::max({terms, program.rows.size(), program.variables.size()}) > kMostTerms) {
    return invalid(
        fmt::format("a linear program has {} variables, {} rows and {} terms: at most {} of each",
                    program.variables.size(), program.rows.size(), terms, kMostTerms));
  }
  return Unit{};
}

// The terms column by column, as Clp takes them.
struct Columns {
  explicit Columns(const Program& program) : starts(program.variables.size() + 1) {
    std::vector<std::vector<std::pair<int, double>>> columns(program.variables.size());
    for (std::size_t row = 0; row < program.rows.size(); ++row) {
      for (const Term& term : program.rows[row].terms) {
        auto& column = columns[term.variable];
        if (column.empty() || column.back().first != static_cast<int>(row)) {
          column.emplace_back(static_cast<int>(row), 0);
        }
        column.back().second += term.factor;
      }
    }
    for (std::size_t i = 0; i < columns.size(); ++i) {
      for (const auto& [row, factor] : columns[i]) {
        rows.push_back(row);
        factors.push_back(factor);
      }
      starts[i + 1] = static_cast<CoinBigIndex>(rows.size());
    }
  }

  std::vector<CoinBigIndex> starts;
  std::vector<int> rows;
  std::vector<double> factors;
};

void load(Clp_Simplex* model, const Program& program) {
  const Columns columns(program);
  std::vector<double> lower, upper, cost, row_lower, row_upper;
  for (const Variable& variable : program.variables) {
    lower.push_back(clp_limit(variable.lower));
    upper.push_back(clp_limit(variable.upper));
    cost.push_back(variable.cost);
  }
  for (const Row& row : program.rows) {
    row_lower.push_back(clp_limit(row.lower));
    row_upper.push_back(clp_limit(row.upper));
  }
  Clp_loadProblem(model, static_cast<int>(program.variables.size()),
                  static_cast<int>(program.rows.size()), columns.starts.data(), columns.rows.data(),
                  columns.factors.data(), lower.data(), upper.data(), cost.data(), row_lower.data(),
                  row_upper.data());
}

Solution optimum(Clp_Simplex* model, const Program& program) {
  Solution solution;
  const double* values = Clp_primalColumnSolution(model);
  for (std::size_t i = 0; i < program.variables.size(); ++i) {
    const Variable& variable = program.variables[i];
    solution.values.push_back(std::clamp(values[i], variable.lower, variable.upper));
    solution.cost += variable.cost * solution.values.back();
  }
  return solution;
}

// The first row that the values miss by more than kTolerance allows; nullopt when they meet all.
std::optional<std::size_t> missed_row(const Program& program, const std::vector<double>& values) {
  for (std::size_t i = 0; i < program.rows.size(); ++i) {
    const Row& row = program.rows[i];
    double sum = 0, sizes = 1;
    for (const Term& term : row.terms) {
      sum += term.factor * values[term.variable];
      sizes += std::abs(term.factor) * std::max(1.0, std::abs(values[term.variable]));
    }
    const double slack = kTolerance * sizes;
    if (!(sum >= row.lower - slack && sum <= row.upper + slack)) return i;
  }
  return std::nullopt;
}

Result<Solution> solve(const Program& program, const Bounds& bounds) {
  const Model model = new_model();
  load(model.get(), program);
  set_bounds(model.get(), bounds);
  Clp_dual(model.get(), 0);
  const auto answer = answer_of(model.get(), bounds);
  if (!answer) return answer.error();
  if (*answer != Answer::kOptimal) return Solution{*answer, 0, {}};
  Solution solution = optimum(model.get(), program);
  if (const auto row = missed_row(program, solution.values)) return missed(model.get(), *row);
  return solution;
}

}  // namespace

bool is_available() {
  return true;
}

Result<Solution> minimize(const Program& program, const Bounds& bounds) {
  if (auto fine = check(program); !fine) return fine.error();
  return without_exceptions([&] { return solve(program, bounds); });
}

#else

bool is_available() {
  return false;
}

Result<Solution> minimize(const Program&, const Bounds&) {
  return Error{Status::kUnsupported,
               "this build has no Clp, which solves linear programs: install coinor-libclp-dev and "
               "build again"};
}

#endif

}  // namespace tally::lp
