// Tracks the connections of anonymous peers: which may stay, and which the server closes to make
// room for another. A peer is anonymous until it has opened a session, has a rank in a job, is a
// member of a cluster, or has shown the cluster's token. Pure: time is an argument.
//
// Operators (peer.h) have room of their own. Only newer operators displace them. The other
// anonymous peers are strangers.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "net/server/connection_limits.h"
#include "net/server/service.h"

namespace tally::rpc {

class AnonymousConnections {
 public:
  explicit AnonymousConnections(const AnonymousLimits& limits) : limits_(limits) {}

  // kSource, kAll and kOperators name the limit that a newer connection would exceed; kConnections
  // is the server's limit of all connections.
  enum class Cause : std::uint8_t { kIdle, kSource, kAll, kOperators, kConnections, kMemory };
  struct Closing {
    ConnectionId id = 0;
    Cause cause = Cause::kIdle;
  };

  // Returns the connection to close before this source may have one more, with the cause. When the
  // source has too many, that is its oldest connection. When there are too many strangers, it is
  // the oldest of all strangers. For an operator it is the oldest operator. The oldest is the one
  // that has been inactive longest. Connections with a request in progress come last.
  std::optional<Closing> before_next(const std::string& source, bool is_operator) const;
  void add(ConnectionId id, const std::string& source, bool is_operator, Nanos now);
  // The connection has ended, or it is no longer anonymous. Does nothing for an unknown connection.
  void remove(ConnectionId id);
  bool contains(ConnectionId id) const { return entries_.contains(id); }

  // The connection was active: it sent a request, got an answer, or read some of a reply. `busy`
  // means that a request of it is in progress.
  void active(ConnectionId id, bool busy, Nanos now);
  // Sets the bytes that the node keeps for the connection: unread replies and an incomplete
  // request.
  void holds(ConnectionId id, std::size_t bytes);

  // Returns the stranger that has been idle too long. Otherwise, while all strangers together hold
  // too much, returns the connection with most bytes.
  std::optional<Closing> next_to_close(Nanos now) const;
  // Returns the stranger that has been inactive longest.
  std::optional<ConnectionId> oldest() const;

  std::size_t strangers() const { return strangers_.size(); }
  std::size_t operators() const { return operators_.size(); }

 private:
  // The order of closing: idle connections first, and of these the oldest.
  struct Rank {
    bool busy = false;
    std::uint64_t turn = 0;  // increases with each activity of any connection
    ConnectionId id = 0;
    auto operator<=>(const Rank&) const = default;
  };
  using Order = std::set<Rank>;

  struct Entry {
    std::string source;
    bool is_operator = false;
    bool busy = false;
    std::uint64_t turn = 0;
    Nanos since = 0;
    std::size_t bytes = 0;

    Rank rank(ConnectionId id) const { return {busy, turn, id}; }
  };

  void insert(ConnectionId id, const Entry& entry);
  void erase(ConnectionId id, const Entry& entry);

  const AnonymousLimits limits_;
  std::unordered_map<ConnectionId, Entry> entries_;
  Order strangers_;
  Order operators_;
  std::map<std::string, Order> by_source_;  // key: source; only strangers
  std::uint64_t last_turn_ = 0;
  std::size_t bytes_ = 0;  // bytes that all strangers hold
};

}  // namespace tally::rpc
