#include <algorithm>
#include <numeric>
#include <utility>

#include "base/lp/column_program.h"
#include "control/plan/packing/master.h"

namespace tally::plan {
namespace {

constexpr std::size_t kSum = 0;  // the row of the shares' sum; behind it are those of Rows

class LpMaster : public Master {
 public:
  LpMaster(lp::ColumnProgram program, double unit) : program_(std::move(program)), unit_(unit) {}

  Outcome add(const Use& use) override {
    lp::Column column;
    column.terms.push_back({kSum, 1});
    for (const auto& [row, seconds] : use) column.terms.push_back({row + 1, seconds / unit_});
    return program_.add(std::move(column));
  }

  Result<Mixture> mix() override {
    const auto solution = program_.minimize();
    if (!solution) return solution.error();
    if (solution->answer != lp::Answer::kOptimal) {
      return Error{Status::kInternal, "the linear program of a packing has no optimum"};
    }
    Mixture mixture;
    mixture.seconds = solution->values[0] * unit_;
    mixture.shares.assign(solution->values.begin() + 1, solution->values.end());
    for (std::size_t row = 1; row < solution->duals.size(); ++row) {
      mixture.prices.push_back(std::max(0.0, -solution->duals[row]));
    }
    for (auto* numbers : {&mixture.shares, &mixture.prices}) {
      const double sum = std::accumulate(numbers->begin(), numbers->end(), 0.0);
      for (double& number : *numbers) number /= sum;
    }
    return mixture;
  }

 private:
  lp::ColumnProgram program_;
  double unit_;
};

}  // namespace

Result<std::unique_ptr<Master>> make_lp_master(std::size_t rows, double unit) {
  std::vector<lp::RowLimits> limits(rows + 1, {-lp::kUnlimited, 0});
  limits[kSum] = {1, 1};
  auto program = lp::ColumnProgram::of(std::move(limits));
  if (!program) return program.error();
  lp::Column time{{1}, {}};
  for (std::size_t row = 0; row < rows; ++row) time.terms.push_back({row + 1, -1});
  if (auto added = program->add(std::move(time)); !added) return added.error();
  return std::unique_ptr<Master>(std::make_unique<LpMaster>(std::move(*program), unit));
}

}  // namespace tally::plan
