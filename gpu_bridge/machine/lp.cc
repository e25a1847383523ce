#include "gpu_bridge/machine/lp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#ifdef TALLY_CLP
#include <Clp_C_Interface.h>
#endif

namespace tally::lp {

#ifdef TALLY_CLP
namespace {

struct DeleteModel {
  void operator()(Clp_Simplex* model) const { Clp_deleteModel(model); }
};
using Model = std::unique_ptr<Clp_Simplex, DeleteModel>;

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

// Clp's numbers without a limit are the largest of all.
double limit(double value) {
  return std::clamp(value, -DBL_MAX, DBL_MAX);
}

void load(Clp_Simplex* model, const Program& program) {
  const Columns columns(program);
  std::vector<double> lower, upper, cost, row_lower, row_upper;
  for (const Variable& variable : program.variables) {
    lower.push_back(limit(variable.lower));
    upper.push_back(limit(variable.upper));
    cost.push_back(variable.cost);
  }
  for (const Row& row : program.rows) {
    row_lower.push_back(limit(row.lower));
    row_upper.push_back(limit(row.upper));
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
  const Model model(Clp_newModel());
  Clp_setLogLevel(model.get(), 0);
  Clp_setPrimalTolerance(model.get(), kTolerance);
  Clp_setDualTolerance(model.get(), kTolerance);
  // The caller scales. Clp applies its tolerances to what it has scaled itself, and so its solution
  // may miss rows of this program by more.
  Clp_scaling(model.get(), 0);
  load(model.get(), program);
  Clp_setMaximumIterations(model.get(), bounds.iterations);
  Clp_setMaximumSeconds(model.get(), bounds.seconds);
  Clp_dual(model.get(), 0);
  // The second status: 2 to 4 when the solution of a changed program misses limits of this one.
  const int status = Clp_status(model.get()), second = Clp_secondaryStatus(model.get());
  if (status == 0 && (second < 2 || second > 4)) {
    Solution solution = optimum(model.get(), program);
    const auto missed = missed_row(program, solution.values);
    if (!missed) return solution;
    return Error{
        Status::kInternal,
        fmt::format("Clp {} misses row {} of a linear program of {} variables and {} rows",
                    Clp_Version(), *missed, program.variables.size(), program.rows.size())};
  }
  if (status == 1) return Solution{Answer::kInfeasible, 0, {}};
  if (status == 2) return Solution{Answer::kUnbounded, 0, {}};
  if (status == 3) {
    return refused(fmt::format(
        "a linear program of {} variables and {} rows was not solved in {} iterations or {} s",
        program.variables.size(), program.rows.size(), bounds.iterations, bounds.seconds));
  }
  return Error{
      Status::kInternal,
      fmt::format("Clp {} does not solve a linear program of {} variables and {} rows: "
                  "status {}, secondary status {}",
                  Clp_Version(), program.variables.size(), program.rows.size(), status, second)};
}

}  // namespace

bool is_available() {
  return true;
}

Result<Solution> minimize(const Program& program, const Bounds& bounds) {
  if (auto fine = check(program); !fine) return fine.error();
  try {
    return solve(program, bounds);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (...) {  // CoinError, which is no std::exception and not in the C interface
    return Error{Status::kInternal, fmt::format("Clp {} ends with an exception", Clp_Version())};
  }
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
