#include "perf/measure/statistics.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace tally::perf {
namespace {

double to_us(Nanos time) {
  return static_cast<double>(time) / static_cast<double>(kMicrosecond);
}

}  // namespace

void Samples::thin_out() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < times_.size(); i += 2) times_[kept++] = times_[i];
  times_.resize(kept);
  stride_ *= 2;
}

Nanos percentile(std::span<const Nanos> sorted, double p) {
  assert(!sorted.empty() && p >= 0 && p <= 100);
  const auto rank = std::ceil(p / 100 * static_cast<double>(sorted.size()));
  const auto index = static_cast<std::size_t>(std::max(rank, 1.0)) - 1;
  return sorted[std::min(index, sorted.size() - 1)];
}

TimeSummary summarise(std::vector<Nanos> times) {
  assert(!times.empty());
  std::sort(times.begin(), times.end());
  const Nanos sum = std::accumulate(times.begin(), times.end(), Nanos{0});
  return TimeSummary{.min_us = to_us(times.front()),
                     .mean_us = to_us(sum) / static_cast<double>(times.size()),
                     .p50_us = to_us(percentile(times, 50)),
                     .p95_us = to_us(percentile(times, 95)),
                     .p99_us = to_us(percentile(times, 99)),
                     .max_us = to_us(times.back())};
}

std::vector<Nanos> slowest(std::span<const std::vector<Nanos>> times_by_rank) {
  std::vector<Nanos> result;
  for (const auto& times : times_by_rank) {
    if (result.empty()) result.resize(times.size());
    assert(result.size() == times.size());
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = std::max(result[i], times[i]);
  }
  return result;
}

double gigabytes_per_second(std::uint64_t bytes, double us) {
  return us > 0 ? static_cast<double>(bytes) / (us * 1e3) : 0;
}

double bus_factor(tally_kind kind, std::uint32_t ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (kind) {
    case TALLY_ALL_REDUCE:
      return 2 * others;
    case TALLY_REDUCE_SCATTER:
    case TALLY_ALL_GATHER:
      return others;
    case TALLY_REDUCE:
    case TALLY_BROADCAST:
    case TALLY_BARRIER:
      break;
  }
  return 1;
}

}  // namespace tally::perf
