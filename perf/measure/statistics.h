// Computes the figures of a row from the times of single iterations.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "client/include/tally/tally.h"

namespace tally::perf {

struct TimeSummary {
  double min_us = 0;
  double mean_us = 0;
  double p50_us = 0;
  double p95_us = 0;
  double p99_us = 0;
  double max_us = 0;
};

// Times of a row, in order. Of more than kMost times it keeps every second one, of more than twice
// as many every fourth one, and so on. Two objects with the same number of times keep the same
// ones.
class Samples {
 public:
  static constexpr std::size_t kMost = 1 << 16;

  void add(Nanos time) {
    if (seen_++ % stride_ != 0) return;
    if (times_.size() == kMost) thin_out();
    if ((seen_ - 1) % stride_ == 0) times_.push_back(time);
  }
  std::vector<Nanos> take() { return std::move(times_); }

 private:
  void thin_out();

  std::vector<Nanos> times_;
  std::uint64_t seen_ = 0;
  std::uint64_t stride_ = 1;
};

// The value that p percent of the sorted values do not exceed, by nearest rank: a measured value,
// never an interpolated one. Precondition: not empty, sorted, 0 <= p <= 100.
Nanos percentile(std::span<const Nanos> sorted, double p);

// Precondition: not empty.
TimeSummary summarise(std::vector<Nanos> times);

// The time of the slowest rank, iteration by iteration, because an iteration ends when the last
// rank has its result. Precondition: equal lengths.
std::vector<Nanos> slowest(std::span<const std::vector<Nanos>> times_by_rank);

// Bytes per time in GB/s (1e9 bytes); 0 when the time is 0.
double gigabytes_per_second(std::uint64_t bytes, double us);

// The factor from the algorithm bandwidth to the bus bandwidth in nccl-tests.
double bus_factor(tally_kind kind, std::uint32_t ranks);

}  // namespace tally::perf
