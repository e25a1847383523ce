// Linear programs, which the library Clp (COIN-OR) solves by the simplex method. A build may lack
// Clp; this header compiles without it. Pure: nothing is printed, and the same program has the same
// solution.
//
// The numbers have no unit here. Tolerances are absolute, so the caller scales its program to
// costs, factors and variables near 1.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "base/result.h"

namespace tally::lp {

inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();
// A solution misses the limits of a row by no more than this, times 1 plus the sizes of the row's
// factors, if values are near 1. Values of variables are never outside their limits.
inline constexpr double kTolerance = 1e-9;
inline constexpr std::size_t kMostTerms = 10'000'000;  // and as many rows, and variables

struct Variable {
  double cost = 0;
  double lower = 0;
  double upper = kUnlimited;
};

struct Term {
  std::size_t variable = 0;  // index in Program::variables
  double factor = 0;
};

// lower <= sum of factor * variable <= upper. Terms of one variable are added up.
struct Row {
  std::vector<Term> terms;
  double lower = -kUnlimited;
  double upper = kUnlimited;
};

// The least sum of cost * variable such that every row holds.
struct Program {
  std::vector<Variable> variables;
  std::vector<Row> rows;
};

// The same program reaches the bound of iterations on every machine. The seconds are a second
// bound, for an iteration that takes long: CPU time of the process, checked between iterations.
struct Bounds {
  int iterations = 1'000'000;
  double seconds = 60;
};

enum class Answer {
  kOptimal,
  kInfeasible,  // no values meet all rows and limits
  kUnbounded,   // the cost falls without end
};

struct Solution {
  Answer answer = Answer::kOptimal;
  // Only when the answer is kOptimal:
  double cost = 0;
  std::vector<double> values;  // by index in Program::variables
};

// Whether this build has Clp.
bool is_available();

// Errors: kUnsupported when this build has no Clp; kInvalidArgument names the row or variable that
// is wrong (a value that is not finite, limits that cross, an index that is too large); kRefused
// when a bound is reached; kInternal when Clp gives up, or its values miss a row. Never throws
// except std::bad_alloc.
Result<Solution> minimize(const Program& program, const Bounds& bounds = {});

}  // namespace tally::lp
