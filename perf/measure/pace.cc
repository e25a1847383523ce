#include "perf/measure/pace.h"

#include <algorithm>

namespace tally::perf {
namespace {

// The ranks agree on the next batch with an operation, so a batch should be long beside it.
constexpr Nanos kShortBatch = 100 * kMillisecond;
constexpr double kMostOfBatch = 1e9;

}  // namespace

Pace::Pace(const Options& options)
    : iterations_(options.iterations),
      batch_(options.ceiling ? (options.iterations + kPauses - 1) / kPauses : options.iterations),
      duration_(static_cast<Nanos>(options.duration_s * static_cast<double>(kSecond))) {}

std::uint64_t Pace::next(std::uint64_t done, Nanos time) const {
  if (duration_ == 0) return std::min(batch_, iterations_ - std::min(done, iterations_));
  if (done == 0) return 1;
  const Nanos left = duration_ - time;
  if (left <= 0) return 0;
  // Takes half of the time that is left, because the speed so far may mislead.
  const Nanos span = std::min(left, std::max(left / 2, kShortBatch));
  const double each = static_cast<double>(std::max<Nanos>(time, 1)) / static_cast<double>(done);
  return static_cast<std::uint64_t>(
      std::clamp(static_cast<double>(span) / each, 1.0, kMostOfBatch));
}

}  // namespace tally::perf
