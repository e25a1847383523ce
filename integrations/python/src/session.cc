#include "integrations/python/src/session.h"

#include "integrations/python/src/failure.h"

namespace tally::python {

tally_session* open_session(const CommunicatorOptions& options) {
  tally_session_options with{};
  with.size = sizeof with;
  with.address = options.address.empty() ? nullptr : options.address.c_str();
  with.job = options.job.c_str();
  with.token = options.token.empty() ? nullptr : options.token.c_str();
  with.rank = options.rank;
  with.ranks = options.ranks;
  with.connect_timeout_ms = options.connect_timeout_ms;
  with.default_deadline_ms = options.deadline_ms;
  if (options.checksums) {
    with.checksums = *options.checksums ? TALLY_CHECKSUMS_ON : TALLY_CHECKSUMS_OFF;
  }
  tally_session* session = nullptr;
  if (const tally_status status = tally_open(&with, &session); status != TALLY_OK) {
    throw Failure(status, tally_last_error(nullptr));
  }
  return session;
}

}  // namespace tally::python
