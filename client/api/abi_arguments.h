// Checks the arguments that callers of the C interface give, and translates them into the library's
// own types. Pure functions.
#pragma once

#include <tally/tally.h>

#include "base/result.h"
#include "client/operations/post.h"
#include "client/session/session.h"
#include "client/session/session_options.h"

namespace tally::client {

inline Region* region_of(tally_region* region) {
  return reinterpret_cast<Region*>(region);
}
inline tally_status code(Status status) {
  return static_cast<tally_status>(status);
}

Outcome check(const tally_session_options& options);
// Precondition: check() succeeded.
SessionOptions translate(const tally_session_options& from);

Outcome check(const Session& session, const tally_operation& operation);
// Precondition: check() succeeded.
Post translate(const tally_operation& from);

// Precondition: check_struct(to) succeeded.
void translate(const Completed& from, tally_completion* to);

}  // namespace tally::client
