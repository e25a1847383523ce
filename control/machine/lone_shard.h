// Where the only shard of a node runs. Without other nodes on the host, the scheduler may run it on
// any idle core. With other nodes' shards on the host, the scheduler may put two shards on one core
// and the ranks on another. Then the shard stays on a CPU that no other shard has, as the shards of
// one node do. When the host has more shards than CPUs, the scheduler decides again.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "control/machine/cpu_claims.h"

namespace tally::control {

class LoneShard {
 public:
  // Moves the shard to these CPUs; `why` is for the log.
  using Move = std::function<void(const std::vector<int>& cpus, std::string_view why)>;

  // The times between looks at the other nodes' claims.
  struct Times {
    // A node that ends sends no message, so the shard looks again after `pause` and this time.
    std::chrono::milliseconds look{1000};
    // A node that starts sends messages. The shard looks at most once in this time, so that
    // many messages wake an idle node seldom.
    std::chrono::milliseconds pause{1000};
  };

  // cpus are those that the shard may use. Calls `move` at once, and whenever other nodes come or
  // go, on the loop of io, which is borrowed. The object may be destroyed before that loop, also
  // inside a call of the loop.
  LoneShard(asio::io_context& io, CpuClaims claims, std::vector<int> cpus, Move move, Times times);
  LoneShard(asio::io_context& io, CpuClaims claims, std::vector<int> cpus, Move move)
      : LoneShard(io, std::move(claims), std::move(cpus), std::move(move), Times()) {}

 private:
  void look();
  void wait_for_others();
  void after(std::chrono::milliseconds span, std::function<void()> then);
  void put(std::vector<int> cpus, std::string_view why);

  CpuClaims claims_;
  const std::vector<int> all_;
  Move move_;
  const Times times_;
  std::vector<int> now_;
  asio::posix::stream_descriptor news_;
  asio::steady_timer timer_;
  // A handler may still be queued when this object ends. The handler checks this first.
  const std::shared_ptr<const bool> life_ = std::make_shared<const bool>(true);
};

}  // namespace tally::control
