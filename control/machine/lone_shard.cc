#include "control/machine/lone_shard.h"

#include <unistd.h>

#include <utility>

namespace tally::control {

LoneShard::LoneShard(asio::io_context& io, CpuClaims claims, std::vector<int> cpus, Move move,
                     Times times)
    : claims_(std::move(claims)),
      all_(std::move(cpus)),
      move_(std::move(move)),
      times_(times),
      news_(io),
      timer_(io) {
  if (claims_.take(all_, 1).empty()) {
    put(all_, "no CPU can be claimed");
  } else {
    look();
  }
}

void LoneShard::look() {
  std::error_code ignored;
  news_.close(ignored);
  const int mine = claims_.settle(all_);
  claims_.read_messages();
  const bool alone = claims_.of_others(all_).empty();
  if (alone) {
    put(all_, "no other node is here");
  } else if (claims_.crowded(all_)) {
    put(all_, "shards of all nodes here are more than the CPUs");
  } else {
    put({mine}, "other nodes are here");
  }
  after(times_.pause, [this, alone] {
    wait_for_others();
    if (!alone) after(times_.look, [this] { look(); });
  });
}

// The descriptor is a duplicate. It must be closed before the claim is given up, else the name
// stays taken.
void LoneShard::wait_for_others() {
  std::error_code failed;
  news_.assign(::dup(claims_.fd()), failed);
  if (failed) return;
  news_.async_wait(asio::posix::stream_descriptor::wait_read,
                   [this, life = std::weak_ptr(life_)](const std::error_code& error) {
                     if (!error && !life.expired()) look();
                   });
}

// Replaces the action that was scheduled before.
void LoneShard::after(std::chrono::milliseconds span, std::function<void()> then) {
  timer_.expires_after(span);
  timer_.async_wait(
      [then = std::move(then), life = std::weak_ptr(life_)](const std::error_code& error) {
        if (!error && !life.expired()) then();
      });
}

void LoneShard::put(std::vector<int> cpus, std::string_view why) {
  if (cpus == now_) return;
  now_ = std::move(cpus);
  move_(now_, why);
}

}  // namespace tally::control
