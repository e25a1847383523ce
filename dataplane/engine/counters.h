// What a shard counts. Written by the shard, read by anyone; docs/metrics.md says what each means.
#pragma once

#include <array>
#include <string_view>

#include "base/counters.h"

namespace tally::engine {

struct ShardCounters {
  Counter notices;
  Counter notices_refused;  // not parsed: the peer was disconnected
  Counter completions;
  Counter failures;
  Counter tiles;
  Counter bytes_in;    // pulled
  Counter bytes_out;   // placed
  Counter bytes_up;    // partial sums made for nodes above
  Counter bytes_down;  // results that came from there
  Counter damaged;     // inputs of tiles that did not have their checksums
  Counter peers_lost;
  Counter uplinks_lost;
  Counter turns;       // of the loop
  Counter idle_turns;  // that found nothing to do
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
    CounterName{"uplinks_lost", &ShardCounters::uplinks_lost},
    CounterName{"turns", &ShardCounters::turns},
    CounterName{"idle_turns", &ShardCounters::idle_turns},
    CounterName{"sleeps", &ShardCounters::sleeps},
};

}  // namespace tally::engine
