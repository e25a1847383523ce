// How many packets of a connection may be on their way: less after signs of congestion, slowly more
// without them (additive increase, multiplicative decrease). Signs are packets that a switch has
// marked, congestion notification packets, and losses. Pure.
//
// Sources: Chiu and Jain, "Analysis of the increase and decrease algorithms for congestion
// avoidance", 1989; that a window lowers its size once per round trip at most, RFC 5681, section
// 3.2.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace tally::transport::roce {

class CongestionWindow {
 public:
  static constexpr std::uint32_t kLeast = 4;  // packets
  static constexpr Nanos kCalm = 50'000;      // between decreases, at least

  explicit CongestionWindow(std::uint32_t most) : most_(most), packets_(most) {}

  std::uint32_t packets() const { return packets_; }
  // So many packets have arrived without a sign of congestion.
  void arrived(std::uint32_t count) {
    credit_ += count;
    since_lowered_ += count;
    for (; credit_ >= packets_; packets_ = std::min(packets_ + 1, most_)) credit_ -= packets_;
  }
  void congested(Nanos now) {
    // Until a window has arrived, signs are of the same round trip.
    if (lowered_ != 0 && (now - lowered_ < kCalm || since_lowered_ < packets_)) return;
    lowered_ = now;
    credit_ = since_lowered_ = 0;
    packets_ = std::max(packets_ / 2, kLeast);
  }

 private:
  std::uint32_t most_;
  std::uint32_t packets_;
  std::uint32_t credit_ = 0;         // arrived since the last increase or decrease
  std::uint64_t since_lowered_ = 0;  // arrived since the last decrease
  Nanos lowered_ = 0;
};

}  // namespace tally::transport::roce
