// Where the only shard of a node runs. Alone on its host it is wherever the scheduler finds a core
// idle. Where other nodes have shards there, the scheduler may leave two on one core and the ranks
// on another: then it stays on a CPU that no other has, as the shards of one node do; unless all
// the shards are more than the CPUs.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <string_view>
#include <vector>

#include "control/cpu_claims.h"

namespace tally::control {

class LoneShard {
 public:
  // Puts the shard on these CPUs; `why` is for the log.
  using Move = std::function<void(const std::vector<int>& cpus, std::string_view why)>;

  // `cpus`: those that it may use. Calls `move` at once, and whenever other nodes come or are gone;
  // in the loop of `io`, which is borrowed, as this object is by that loop.
  LoneShard(asio::io_context& io, CpuClaims claims, std::vector<int> cpus, Move move);

 private:
  void look();
  void wait_for_others();
  void after(std::chrono::milliseconds span, std::function<void()> then);
  void put(std::vector<int> cpus, std::string_view why);

  CpuClaims claims_;
  const std::vector<int> all_;
  Move move_;
  std::vector<int> now_;
  asio::posix::stream_descriptor news_;
  asio::steady_timer timer_;
};

}  // namespace tally::control
