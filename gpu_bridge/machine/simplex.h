// A small linear program: the least possible maximum of several affine functions. Dense and without
// a library, because planners solve thousands of programs of at most some hundred numbers a side.
#pragma once

#include <cstddef>
#include <vector>

namespace tally::host {

// A row is a constant, then one coefficient for each variable. Variables are 0 or more.
struct MaximumProgram {
  std::size_t variables = 0;
  std::vector<std::vector<double>> nonnegative;  // each must be 0 or more; its constant is
  std::vector<std::vector<double>> functions;    // whose maximum becomes least; never negative
};

struct Optimum {
  double maximum = 0;
  std::vector<double> variables;
};

// Simplex method: Dantzig's rule, and Bland's rule if that takes long, which always ends.
// Precondition: at least one function, and the rows are as declared at variables of 0.
Optimum minimize_maximum(const MaximumProgram& program);

}  // namespace tally::host
