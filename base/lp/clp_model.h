// How the files of this folder call Clp: the settings of a model, its limits, and what its status
// means. Only builds with Clp include this header.
#pragma once

#include <Clp_C_Interface.h>
#include <fmt/format.h>

#include <memory>
#include <new>

#include "base/lp/lp.h"

namespace tally::lp {

struct DeleteModel {
  void operator()(Clp_Simplex* model) const { Clp_deleteModel(model); }
};
using Model = std::unique_ptr<Clp_Simplex, DeleteModel>;

// Returns a model that prints nothing, with the tolerances of lp.h.
Model new_model();

void set_bounds(Clp_Simplex* model, const Bounds& bounds);

// Clp's numbers without a limit are the largest of all.
double clp_limit(double value);

// Returns how a simplex method of Clp has ended. Errors: kRefused when a bound was reached,
// kInternal when Clp gave up.
Result<Answer> answer_of(Clp_Simplex* model, const Bounds& bounds);

// The error for values that miss a row.
Error missed(Clp_Simplex* model, std::size_t row);

// Calls a function that calls Clp. Clp's exceptions become an error: CoinError is no std::exception
// and not in the C interface.
template <typename Call>
auto without_exceptions(Call call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (...) {
    return Error{Status::kInternal, fmt::format("Clp {} ends with an exception", Clp_Version())};
  }
}

}  // namespace tally::lp
