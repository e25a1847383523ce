// The repair of a session whose job has lost a node (docs/decisions/0035). The session is
// interrupted from then on: it has fenced off all nodes, its operations wait, and the coordinator
// has the loss. When all ranks have opened the next version and agree on its first rounds, each
// operation either ends as it ended elsewhere, or is done again. The session owns it; one thread at
// a time uses it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "client/operations/pending_operations.h"
#include "client/operations/post_placement.h"
#include "client/plans/plan_change.h"
#include "client/session/session_options.h"
#include "client/session/session_regions.h"
#include "client/versions/plan_versions.h"

namespace tally::client {

// The units of a session that take part in its repair.
struct RepairedUnits {
  PlanVersions& versions;
  PlanChange& change;
  SessionRegions& regions;
  PostPlacement& posts;
  PendingOperations& operations;
};

class SessionRepair {
 public:
  // `finishes`: the job goes on without ranks that are lost or late. has_quorum: late ranks are
  // left out down to the quorum. Without one, at least half of the ranks must have announced the
  // operation.
  SessionRepair(const RepairedUnits& units, bool finishes, bool has_quorum)
      : units_(units), finishes_(finishes), has_quorum_(has_quorum) {}

  // Something was lost that a repair can replace. The first loss counts, until interrupt(). False:
  // the job cannot be repaired.
  bool note(const std::string& why);
  // A completion that reports a lost node or rank, or a version that has ended because of that, or
  // a late rank without which the job goes on. Its operation stays outstanding. None: another
  // completion, or the job cannot be repaired.
  std::optional<Status> take_loss(PlanVersion& version, const wire::Completion& completion);
  // The loss that calls for interrupt(); null when there is none.
  const std::string* noted() const { return noted_ ? &noted_->why : nullptr; }
  // Whether the session waits for its repair.
  bool is_interrupted() const { return units_.change.is_interrupted(); }
  // The same, or it is about to be interrupted.
  bool is_needed() const { return noted_ || is_interrupted(); }

  // Takes the memory back from all nodes, keeps the operations, and reports the loss. Regions move
  // out of the reach of a node that has stopped in the middle of a tile. False: a node keeps memory
  // that cannot move, and the session is over.
  bool interrupt(const std::string& why, const SessionOptions& options);
  // The rounds of this rank, for the coordinator. Precondition: is_interrupted().
  RoundsByTag rounds() const;
  // All ranks know the decision: the next version takes the place of the lost one. Ends the
  // operations whose rounds are closed, and makes the others ready to be placed, as well as rounds
  // that have ended here and must be done again. An error: the session is over.
  Outcome go_over(const SessionOptions& options);

 private:
  bool is_late(const PlanVersion& version, const wire::Completion& completion);
  bool take_memory_back(const SessionOptions& options);
  void blame(const wire::Completion& completion, std::uint16_t own_rank);
  Outcome do_again(std::uint32_t tag, std::uint32_t deadline_ms);

  RepairedUnits units_;
  bool finishes_;
  bool has_quorum_;
  std::optional<LossReport> noted_;
  std::map<std::uint32_t, std::uint32_t> slow_;  // by tag: the last round that is_late() took
  Nanos since_ = 0;
};

}  // namespace tally::client
