// How a rank whose coordinator is gone takes its place at the next one.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "client/plans/plan_change.h"
#include "client/session/session_options.h"
#include "client/versions/plan_versions.h"
#include "net/rpc/terms.h"
#include "net/tls/credentials.h"

namespace tally::client {

// A rank of a running job.
struct Resumption {
  std::vector<std::string> addresses;  // where to ask for the coordinator
  std::string job;
  net::tls::Credentials credentials;  // of the rank's user
  std::uint16_t rank = 0;
  std::uint16_t ranks = 1;
  std::vector<std::uint32_t> epochs;  // the versions that its job may have
  rpc::HighestTerm term;              // of the coordinators that have answered it
};

// Asks the addresses in turn, for some 15 s where nodes elect their coordinator, and for some 1 s
// elsewhere (JoinTimeout). The error of a coordinator that does not know the job, or refuses the
// rank, is returned at once; otherwise that of the last attempt. Borrows both. Any thread may call
// it; another one may set `stop`.
Result<ResumedJob> resume_job(const Resumption& wanted, const std::atomic<bool>& stop);

// How a session searches: at its addresses, and at the nodes of its versions. Both are borrowed;
// what a search uses is copied when it begins.
PlanChange::Search search_from(const SessionOptions& options, const PlanVersions& versions);

}  // namespace tally::client
