// The error of an operation or a session, as an exception. Python sees it as tally.Error.
#pragma once

#include <tally/tally.h>

#include <stdexcept>
#include <string>

namespace tally::python {

struct Failure : std::runtime_error {
  Failure(tally_status why, const std::string& message, std::uint32_t rank = TALLY_NO_RANK,
          bool gone = false)
      : std::runtime_error(message), status(why), culprit(rank), inputs_gone(gone) {}

  tally_status status;
  std::uint32_t culprit;  // the rank to blame, or TALLY_NO_RANK
  bool inputs_gone;       // part of the result may have overwritten the inputs
};

}  // namespace tally::python
