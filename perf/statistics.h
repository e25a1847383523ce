// From the times of single iterations to the figures of a row.
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

// Times of a row, in order. Of more than kMost every second one is kept, of more than twice as many
// every fourth, and so on: the same ones wherever as many are added.
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

// The value that p percent of the sorted values do not exceed (nearest rank: a value that was
// measured, never one in between). Precondition: not empty, sorted, 0 <= p <= 100.
Nanos percentile(std::span<const Nanos> sorted, double p);

// Precondition: not empty.
TimeSummary summarise(std::vector<Nanos> times);

// Iteration by iteration the time of the slowest rank: an iteration is over when the last rank has
// its result. Precondition: equal lengths.
std::vector<Nanos> slowest(std::span<const std::vector<Nanos>> times_by_rank);

// Bytes per time in GB/s (1e9 bytes); 0 for no time.
double gigabytes_per_second(std::uint64_t bytes, double us);

// What nccl-tests multiplies the algorithm bandwidth with to get the bus bandwidth.
double bus_factor(tally_kind kind, std::uint32_t ranks);

}  // namespace tally::perf
