// Decides when a node that nobody uses should end. A new connection counts as use, because its
// client is about to open a session: it must find the node for as long as after a session. The
// caller looks from time to time, and passes the time and what it sees.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace tally::control {

class IdleLimit {
 public:
  IdleLimit(Nanos limit, Nanos now) : limit_(limit), last_use_(now) {}

  // latest_connection: the server's latest connection, whose number rises with each.
  bool is_over(Nanos now, bool has_sessions, std::uint64_t latest_connection) {
    if (has_sessions || latest_connection != latest_connection_) last_use_ = now;
    latest_connection_ = latest_connection;
    return now - last_use_ >= limit_;
  }

 private:
  Nanos limit_;
  Nanos last_use_;
  std::uint64_t latest_connection_ = 0;
};

}  // namespace tally::control
