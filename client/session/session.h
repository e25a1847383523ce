// A rank's session with the nodes of its job. The session puts its units together: the versions of
// the job's plan with their nodes and books, the regions, the operations between post and
// completion, the changes of the plan, and the loss of a node, which is repaired or ends it. The
// caller's thread drives it; one thread at a time uses it. tally.cc adds the C interface. Errors
// are values with a message for the user.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/idle.h"
#include "base/result.h"
#include "client/memory/region.h"
#include "client/operations/pending_operations.h"
#include "client/operations/post.h"
#include "client/operations/post_placement.h"
#include "client/plans/plan_change.h"
#include "client/session/job_entry.h"
#include "client/session/session_loss.h"
#include "client/session/session_options.h"
#include "client/session/session_regions.h"
#include "client/session/session_repair.h"
#include "client/session/version_changes.h"
#include "client/versions/connection_watch.h"
#include "client/versions/nodes.h"
#include "client/versions/plan_versions.h"

namespace tally::client {

class Session {
 public:
  static Result<std::unique_ptr<Session>> open(SessionOptions options);
  // Cancels outstanding operations, closes the session at the nodes, and frees the regions.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Asks whether the nodes accept one more region of so many bytes. The caller asks before it
  // populates the memory.
  Outcome room_for(std::uint64_t bytes) {
    const auto may = await_repair();
    return may ? SessionRegions::room_for(versions_, bytes) : may;
  }
  Result<Region*> add_region(std::unique_ptr<Region> region);
  Outcome remove_region(Region* region);
  bool owns(const Region* region) const { return regions_.owns(region); }

  // Whether post() would take the operation, but for its tag and the credit.
  Outcome check(const Post& post) const {
    return loss_.lost() ? Outcome(*loss_.lost()) : operations_.validate(post);
  }
  // Announces the operation and returns the round of its tag.
  Result<std::uint32_t> post(const Post& post);
  Outcome cancel(std::uint32_t tag);
  // Takes a completion without waiting; false when there is none.
  bool poll(Completed& completed);
  // Waits for a completion until `until`. kAgain: none came. kInvalidArgument: nothing is
  // outstanding. Another error: the session is over.
  Outcome wait(Completed& completed, Nanos until);
  // As wait(), for this round of this tag. Keeps other completions for poll() and wait().
  Outcome wait_for(std::uint32_t tag, std::uint32_t round, Completed& completed);

  // The same descriptor for the life of the session.
  int fd() const { return watch_.fd(); }
  const Nodes& nodes() const { return versions_.now().nodes; }
  // The needs of all nodes, including those of a coming version.
  MemoryNeeds memory_needs() const { return versions_.memory_needs(); }
  // "shm", or "shm, fabric" when the nodes differ. The text is valid for the life of the session.
  const char* transport() { return transports_.emplace(nodes().transport()).first->c_str(); }
  bool arm();  // false when completions are there already, or with held_back()
  // Set when the session is over and a node has stopped in the middle of a tile. Outstanding
  // operations do not complete until the session fences the node off or moves the regions away from
  // it, and their buffers stay in use. Later calls try again.
  const std::optional<Error>& held_back() const { return loss_.held_back(); }

  const BookConfig& book_config() const { return versions_.now().config; }
  bool outstanding(std::uint32_t tag) const {
    return versions_.outstanding(tag) || posts_.waits(tag);
  }
  // Operations that have no completion yet.
  std::uint32_t outstanding() const { return versions_.outstanding() + posts_.waiting(); }
  const std::optional<Error>& lost() const { return loss_.lost(); }
  bool gives_checksums() const { return operations_.gives_checksums(); }
  // Bytes copied between the caller's memory and the node's.
  std::uint64_t copied_bytes() const { return operations_.copied_bytes(); }
  void log(int level, const std::string& text) const { options_.write_log(level, text); }

 private:
  Session(SessionOptions options, SharedByConnections shared, JobEntry entry);

  // Calls the change of the plan off when the nodes of the next version refuse the region.
  Region* accept(const SessionRegions::Added& added);
  // Sends outbound_, the notices of the book of this version. `contribution` goes with the notice.
  void send(PlanVersion& by, std::span<const std::byte> contribution = {});
  void send(const PlacedPost& placed);
  void place_waiting();
  // Takes the completions that the shards sent; true when there were any.
  bool pump();
  Status complete(PlanVersion& version, std::uint32_t shard, const wire::Completion& completion);
  bool take(Completed& completed);
  void look_around(Nanos now);  // finds lost nodes, news, and operations past their `until`
  bool poll_nodes();            // false: the session is over
  void poll_coordinator();
  void prepare(const PlanUpdate& update);
  // An error ends the session. Returns whether the session is over.
  bool must_end(const Outcome& outcome) {
    if (!outcome) lose(Status::kNodeLost, outcome.error().message);
    return loss_.lost().has_value();
  }
  // Loses a node, or a rank at a node. A repair begins at the next look_around(), or the session is
  // over.
  void lose_node(const std::string& why);
  void interrupt();
  // Waits until the nodes can be asked. An error: the session is over.
  Outcome await_repair();
  void lose(Status status, const std::string& why, std::uint16_t culprit = wire::kNoRank);
  void shut_down();

  SessionOptions options_;
  SharedByConnections shared_;
  PlanVersions versions_;
  PlanChange change_;
  ConnectionWatch watch_;
  SessionRegions regions_;
  PostPlacement posts_;
  PendingOperations operations_;
  SessionLoss loss_;
  VersionChanges version_changes_;
  SessionRepair repair_;
  IdlePolicy idle_;
  std::vector<Completed> set_aside_;               // by wait_for(), oldest first
  std::vector<Outbound> outbound_;                 // empty between calls
  std::set<std::string, std::less<>> transports_;  // texts that transport() has returned
  Nanos next_look_ = 0;
};

}  // namespace tally::client
