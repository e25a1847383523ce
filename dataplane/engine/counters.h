// The counters of a shard. The shard writes them, and any thread reads them. docs/metrics.md
// defines each counter.
#pragma once

#include <array>
#include <string_view>

#include "base/counters.h"

namespace tally::engine {

struct ShardCounters {
  Counter notices;
  Counter notices_refused;  // messages that break the protocol; the sender is disconnected
  Counter completions;
  Counter failures;
  Counter tiles;
  Counter bytes_in;    // pulled inputs, without checksums and repeated pulls
  Counter bytes_out;   // results and statistics, for all receivers
  Counter bytes_up;    // partial sums for parent nodes
  Counter bytes_down;  // results from parent nodes
  Counter damaged;     // inputs of tiles that did not match their checksums
  Counter peers_lost;
  Counter parents_lost;
  Counter out_of_memory;  // times that memory ran out: a turn ended early, or a tile failed
  Counter turns;          // turns of the loop
  Counter idle_turns;     // turns that found no work
  Counter sleeps;
};

struct CounterName {
  std::string_view name;
  Counter ShardCounters::*counter;
};

inline constexpr std::array kShardCounterNames = {
    CounterName{"notices", &ShardCounters::notices},
    CounterName{"notices_refused", &ShardCounters::notices_refused},
    CounterName{"completions", &ShardCounters::completions},
    CounterName{"failures", &ShardCounters::failures},
    CounterName{"tiles", &ShardCounters::tiles},
    CounterName{"bytes_in", &ShardCounters::bytes_in},
    CounterName{"bytes_out", &ShardCounters::bytes_out},
    CounterName{"bytes_up", &ShardCounters::bytes_up},
    CounterName{"bytes_down", &ShardCounters::bytes_down},
    CounterName{"damaged", &ShardCounters::damaged},
    CounterName{"peers_lost", &ShardCounters::peers_lost},
    CounterName{"parents_lost", &ShardCounters::parents_lost},
    CounterName{"out_of_memory", &ShardCounters::out_of_memory},
    CounterName{"turns", &ShardCounters::turns},
    CounterName{"idle_turns", &ShardCounters::idle_turns},
    CounterName{"sleeps", &ShardCounters::sleeps},
};

}  // namespace tally::engine
