#ifdef TALLY_CLP

#include "base/lp/clp_model.h"

#include <algorithm>
#include <cfloat>

namespace tally::lp {

Model new_model() {
  Model model(Clp_newModel());
  Clp_setLogLevel(model.get(), 0);
  Clp_setPrimalTolerance(model.get(), kTolerance);
  Clp_setDualTolerance(model.get(), kTolerance);
  // The caller scales. Clp applies its tolerances to what it has scaled itself, and so its solution
  // may miss rows of this program by more.
  Clp_scaling(model.get(), 0);
  return model;
}

void set_bounds(Clp_Simplex* model, const Bounds& bounds) {
  Clp_setMaximumIterations(model, bounds.iterations);
  Clp_setMaximumSeconds(model, bounds.seconds);
}

double clp_limit(double value) {
  return std::clamp(value, -DBL_MAX, DBL_MAX);
}

Result<Answer> answer_of(Clp_Simplex* model, const Bounds& bounds) {
  // The second status: 2 to 4 when the solution of a changed program misses limits of this one.
  const int status = Clp_status(model), second = Clp_secondaryStatus(model);
  if (status == 0 && (second < 2 || second > 4)) return Answer::kOptimal;
  if (status == 1) return Answer::kInfeasible;
  if (status == 2) return Answer::kUnbounded;
  if (status == 3) {
    return refused(fmt::format(
        "a linear program of {} variables and {} rows was not solved in {} iterations or {} s",
        Clp_numberColumns(model), Clp_numberRows(model), bounds.iterations, bounds.seconds));
  }
  return Error{
      Status::kInternal,
      fmt::format("Clp {} does not solve a linear program of {} variables and {} rows: "
                  "status {}, secondary status {}",
                  Clp_Version(), Clp_numberColumns(model), Clp_numberRows(model), status, second)};
}

Error missed(Clp_Simplex* model, std::size_t row) {
  return Error{Status::kInternal,
               fmt::format("Clp {} misses row {} of a linear program of {} variables and {} rows",
                           Clp_Version(), row, Clp_numberColumns(model), Clp_numberRows(model))};
}

}  // namespace tally::lp

#endif
