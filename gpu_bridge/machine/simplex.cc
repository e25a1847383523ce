#include "gpu_bridge/machine/simplex.h"

#include <algorithm>
#include <cmath>

namespace tally::host {
namespace {

constexpr double kTiny = 1e-11;  // relative to coefficients near 1
constexpr int kDantzigSteps = 500;
constexpr int kMostSteps = 20000;

// Each basic quantity as an affine function of the others, which are 0 ("dictionary" in Chvatal,
// Linear Programming, chapter 2). Quantities: the variables, the maximum, and one slack for each
// row.
class Dictionary {
 public:
  explicit Dictionary(const MaximumProgram& program)
      : maximum_(program.variables), width_(program.variables + 2) {
    for (std::size_t i = 0; i <= program.variables; ++i) others_.push_back(i);
    for (const auto& row : program.nonnegative) {
      cells_.insert(cells_.end(), row.begin(), row.end());
      cells_.push_back(0);
    }
    for (const auto& row : program.functions) {
      for (const double cell : row) cells_.push_back(-cell);
      cells_.push_back(1);
    }
    const std::size_t rows = program.nonnegative.size() + program.functions.size();
    for (std::size_t i = 0; i < rows; ++i) basic_.push_back(width_ - 1 + i);
    // The maximum enters at the function that is largest, so all slacks become 0 or more.
    std::size_t largest = program.nonnegative.size();
    for (std::size_t i = largest; i < rows; ++i) {
      if (cell(i, 0) < cell(largest, 0)) largest = i;
    }
    objective_ = largest;
    pivot(largest, width_ - 1);
  }

  void solve() {
    for (int step = 0; step < kMostSteps; ++step) {
      const std::size_t column = entering(step >= kDantzigSteps);
      if (column == 0) return;
      const std::size_t row = leaving(column);
      if (row == basic_.size()) return;
      pivot(row, column);
    }
  }

  Optimum optimum() const {
    Optimum found{cell(objective_, 0), std::vector<double>(maximum_)};
    for (std::size_t i = 0; i < basic_.size(); ++i) {
      if (basic_[i] < maximum_) found.variables[basic_[i]] = std::max(cell(i, 0), 0.0);
    }
    return found;
  }

 private:
  double& cell(std::size_t row, std::size_t column) { return cells_[row * width_ + column]; }
  double cell(std::size_t row, std::size_t column) const { return cells_[row * width_ + column]; }

  // The column that lowers the maximum; 0 when none does.
  std::size_t entering(bool bland) const {
    std::size_t best = 0;
    for (std::size_t j = 1; j < width_; ++j) {
      if (cell(objective_, j) >= -kTiny) continue;
      const bool better = best == 0 || (bland ? others_[j - 1] < others_[best - 1]
                                              : cell(objective_, j) < cell(objective_, best));
      if (better) best = j;
    }
    return best;
  }

  // The row that first becomes 0 as the column's quantity grows; the number of rows when none does.
  std::size_t leaving(std::size_t column) const {
    std::size_t best = basic_.size();
    double least = 0;
    for (std::size_t i = 0; i < basic_.size(); ++i) {
      if (i == objective_ || cell(i, column) >= -kTiny) continue;
      const double ratio = std::max(cell(i, 0), 0.0) / -cell(i, column);
      const bool better = best == basic_.size() || ratio < least - kTiny ||
                          (ratio <= least + kTiny && basic_[i] < basic_[best]);
      if (!better) continue;
      best = i;
      least = ratio;
    }
    return best;
  }

  // Exchanges the basic quantity of the row with the quantity of the column.
  void pivot(std::size_t row, std::size_t column) {
    const double factor = -1 / cell(row, column);
    for (std::size_t j = 0; j < width_; ++j) cell(row, j) *= factor;
    cell(row, column) = -factor;
    for (std::size_t i = 0; i < basic_.size(); ++i) {
      const double times = cell(i, column);
      if (i == row || times == 0) continue;
      cell(i, column) = 0;
      for (std::size_t j = 0; j < width_; ++j) cell(i, j) += times * cell(row, j);
    }
    std::swap(basic_[row], others_[column - 1]);
  }

  std::size_t maximum_;  // the number of variables, and so the quantity that is the maximum
  std::size_t width_;
  std::size_t objective_ = 0;  // the row of the maximum, which stays basic
  std::vector<double> cells_;
  std::vector<std::size_t> basic_,
      others_;  // the quantity of each row, of each column but the first
};

}  // namespace

Optimum minimize_maximum(const MaximumProgram& program) {
  Dictionary dictionary(program);
  dictionary.solve();
  return dictionary.optimum();
}

}  // namespace tally::host
