// The time-outs of a cluster, derived from one number: how long a fault may last before operations
// fail because of it. The coordinator's number counts for its nodes and ranks. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "base/clock.h"

namespace tally {

struct FaultTimeouts {
  static constexpr Nanos kLeast = 10 * kSecond;  // the next elected coordinator acts within 6 s
  static constexpr Nanos kMost = 3600 * kSecond;

  Nanos fault = 60 * kSecond;  // from kLeast to kMost
  Nanos own_deadline = 0;      // of operations, as the user has set it; 0: it follows from `fault`

  // Of operations that have none of their own.
  constexpr Nanos deadline() const { return own_deadline != 0 ? own_deadline : fault; }
  // For all attempts to repair a job together.
  constexpr Nanos repair() const { return fault; }
  // After this time without a message of its coordinator, a rank that waits for one gives it up. It
  // is longer than a repair, because the coordinator reports the end of that.
  constexpr Nanos coordinator_silence() const { return fault + 5 * kSecond; }

  // From the first request of a change of plan until all ranks have confirmed. It is shorter than
  // deadline(), so an operation that waits for a post that is held back still succeeds.
  constexpr Nanos change() const { return fault / 2; }
  // For a rank's sessions and regions of a new version. The coordinator gives up a little later.
  constexpr Nanos preparing() const { return fault / 3; }
  // A node that has not asked for news for so long has left.
  constexpr Nanos node_silence() const { return fault / 2; }

  // For the ranks of a job that the next coordinator has taken over. A rank notices within 4 s that
  // an elected coordinator stands still.
  constexpr Nanos rank_resume() const { return std::max(fault / 3, 5 * kSecond); }
  // For a node to accept the trees of a job; and within that, to connect with parent nodes.
  constexpr Nanos placing() const { return std::max(fault / 6, 4 * kSecond); }
  constexpr Nanos parent_connection() const { return placing() * 4 / 5; }
  // For a write to the coordinator's store. The answers of the placing nodes wait for it.
  constexpr Nanos store() const { return std::min(placing() / 2, 5 * kSecond); }
  // For a node whose connection has ended to join again, before its jobs lose it.
  constexpr Nanos node_return() const { return std::max(fault / 6, 4 * kSecond); }
  // The same, for the jobs that can be repaired without it.
  constexpr Nanos node_rejoin() const { return std::min(fault / 6, 2 * kSecond); }
  // For a rank whose connection has ended, before it has left.
  constexpr Nanos rank_reconnect() const { return std::min(fault / 6, 2 * kSecond); }

  // A node asks for news again at once when it has an answer. It is silent when it does not do so
  // within heartbeat() and second_look(). The coordinator holds the request for heartbeat_hold().
  constexpr Nanos heartbeat() const { return std::min(fault / 12, 750 * kMillisecond); }
  constexpr Nanos second_look() const { return std::min(fault / 60, 200 * kMillisecond); }
  constexpr Nanos heartbeat_hold() const { return std::min(fault / 12, 1 * kSecond); }
  // A node waits so long for the answer to a request for news. No coordinator is elected there.
  constexpr Nanos news_answer() const { return std::min(fault / 3, 20 * kSecond); }

  // What the log and tallyctl show, in milliseconds.
  struct Shown {
    std::string_view name;
    std::int64_t ms;
  };
  constexpr std::array<Shown, 12> shown() const {
    return {{{"fault_ms", fault / kMillisecond},
             {"deadline_ms", deadline() / kMillisecond},
             {"repair_ms", repair() / kMillisecond},
             {"change_ms", change() / kMillisecond},
             {"node_silence_ms", node_silence() / kMillisecond},
             {"rank_resume_ms", rank_resume() / kMillisecond},
             {"placing_ms", placing() / kMillisecond},
             {"node_return_ms", node_return() / kMillisecond},
             {"node_rejoin_ms", node_rejoin() / kMillisecond},
             {"rank_reconnect_ms", rank_reconnect() / kMillisecond},
             {"heartbeat_ms", heartbeat() / kMillisecond},
             {"coordinator_silence_ms", coordinator_silence() / kMillisecond}}};
  }
};

}  // namespace tally
