// How a session ends before its time. Every buffer returns to the caller, but not before no shard
// can store into it. For that each node is fenced off, or the memory that operations use is moved
// out of its reach. While neither succeeds, operations do not complete and their buffers stay in
// use. The session owns it, ends the operations that no book knows, and calls try_again(). One
// thread at a time uses it.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "client/session/session_options.h"
#include "client/session/session_regions.h"
#include "client/versions/plan_versions.h"

namespace tally::client {

class SessionLoss {
 public:
  // The session is over for this reason. Precondition: it was not over.
  void begin(Status status, const std::string& why, const SessionOptions& options);
  // Set when the session is over: the error of later calls.
  const std::optional<Error>& lost() const { return lost_; }
  // Returns the reason when operations ended with this status because the session was over.
  const std::string* reason_of(Status status) const;

  // Waits at most until `until`, then takes the access away from the nodes and ends all operations
  // of the books, or sets held_back().
  void end_access(const PlanVersions& versions, const SessionRegions& regions, Nanos until,
                  const SessionOptions& options);
  // Set when a node has stopped in the middle of a tile, and the session could neither fence it off
  // nor move the regions.
  const std::optional<Error>& held_back() const { return held_back_; }
  // Tries again without waiting. Returns whether the buffers are free. Precondition: held_back().
  bool try_again(const PlanVersions& versions, const SessionRegions& regions);

 private:
  void free_buffers(const PlanVersions& versions);

  std::optional<Error> lost_;
  std::string why_;
  std::optional<Error> held_back_;
  Nanos next_move_ = 0;  // time of the next attempt to move the regions
};

}  // namespace tally::client
