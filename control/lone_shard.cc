#include "control/lone_shard.h"

#include <unistd.h>

#include <chrono>
#include <utility>

namespace tally::control {
namespace {

// Nobody says that he has gone.
constexpr auto kLook = std::chrono::seconds(2);
// Whoever comes is heard of at once; whoever only says so keeps nobody busy.
constexpr auto kPause = std::chrono::milliseconds(100);

}  // namespace

LoneShard::LoneShard(asio::io_context& io, CpuClaims claims, std::vector<int> cpus, Move move)
    : claims_(std::move(claims)),
      all_(std::move(cpus)),
      move_(std::move(move)),
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
  claims_.hear();
  const bool alone = claims_.of_others(all_).empty();
  if (alone) {
    put(all_, "no other node is here");
  } else if (claims_.crowded(all_)) {
    put(all_, "shards of all nodes here are more than the CPUs");
  } else {
    put({mine}, "other nodes are here");
  }
  after(kPause, [this, alone] {
    wait_for_others();
    if (!alone) after(kLook, [this] { look(); });
  });
}

// The descriptor is a duplicate: closed before the claim may be given up, else the name stays
// taken.
void LoneShard::wait_for_others() {
  std::error_code failed;
  news_.assign(::dup(claims_.fd()), failed);
  if (failed) return;
  news_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const std::error_code& error) {
    if (!error) look();
  });
}

// What was to come before does not.
void LoneShard::after(std::chrono::milliseconds span, std::function<void()> then) {
  timer_.expires_after(span);
  timer_.async_wait([then = std::move(then)](const std::error_code& error) {
    if (!error) then();
  });
}

void LoneShard::put(std::vector<int> cpus, std::string_view why) {
  if (cpus == now_) return;
  now_ = std::move(cpus);
  move_(now_, why);
}

}  // namespace tally::control
