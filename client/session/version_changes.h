// Opens and closes the versions of the job's plan in a session, as the coordinator announces them:
// their sessions at the nodes, and the session's regions there. An error of a function is the end
// of the session: a node keeps the memory. The session owns it; one thread at a time uses it.
#pragma once

#include <string>

#include "base/result.h"
#include "client/connections/shared_by_connections.h"
#include "client/operations/post_placement.h"
#include "client/plans/plan_change.h"
#include "client/session/session_options.h"
#include "client/session/session_regions.h"
#include "client/versions/connection_watch.h"
#include "client/versions/plan_versions.h"

namespace tally::client {

class VersionChanges {
 public:
  // The units of the session that a change concerns.
  struct Units {
    const SessionOptions& options;
    const SharedByConnections& shared;
    PlanVersions& versions;
    PlanChange& change;
    ConnectionWatch& watch;
    SessionRegions& regions;
    PostPlacement& posts;
  };

  explicit VersionChanges(const Units& units) : units_(units) {}

  // Opens the next version and registers the regions there, or reports to the coordinator why this
  // rank does not take it. `rounds`: this rank's.
  Outcome prepare(const PlanUpdate& update, const RoundsByTag& rounds);
  // Calls the change off, because this rank cannot use the next version.
  Outcome call_off(const std::string& why);
  // The coordinator has called the change off. `note`: for the log; empty: none.
  Outcome drop_next(const std::string& note);
  // All ranks know the decision: the next version carries new rounds.
  void go_over();
  // The coordinator has nothing more for now. Reports when no operation of this rank needs the old
  // version any more, and watches the coordinator where that is another one.
  Outcome after_steps();
  // No rank needs the old version any more: closes it, and reports that.
  Outcome leave();
  // Closes the old version, which no operation of this rank needs. Keeps its completions.
  Outcome leave_old();

 private:
  void refuse(const PlanUpdate& update, const Error& why);
  Outcome close(PlanVersion& version);

  Units units_;
};

}  // namespace tally::client
