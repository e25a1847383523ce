// The node's sessions, by connection and by number. A session's connection is free for the next
// session as soon as the session begins to end. Its number is free when nothing of the session is
// left, because shards and devices know the session by its number. Control thread only.
#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "control/node/session.h"

namespace tally::control {

class SessionTable {
 public:
  // Adds a session with the lowest free number. Precondition: the connection has none. When it
  // throws, there is no new session.
  SharedSession add(rpc::ConnectionId connection);
  // The session that is open on the connection; nullptr when there is none.
  SharedSession on(rpc::ConnectionId connection) const;
  // The session with that number, even while it ends; nullptr when there is none.
  SharedSession numbered(std::uint32_t number) const;
  // Sessions of the job instance that are not ending.
  std::vector<SharedSession> of(const JobInstance& instance) const;

  // Frees the connection, and the number. Both need no memory.
  void disconnect(rpc::ConnectionId connection) { by_connection_.erase(connection); }
  void erase(std::uint32_t number) { by_number_.erase(number); }

  // True when no connection has a session.
  bool empty() const { return by_connection_.empty(); }
  // All sessions, also those that are ending.
  const std::map<std::uint32_t, SharedSession>& all() const { return by_number_; }

 private:
  std::uint32_t free_number() const;

  std::unordered_map<rpc::ConnectionId, SharedSession> by_connection_;
  std::map<std::uint32_t, SharedSession> by_number_;
  std::uint64_t last_identity_ = 0;
};

}  // namespace tally::control
