#include "perf/run/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace tally::perf {
namespace {

constexpr std::uint64_t kWidth = 40;
constexpr Nanos kEvery = 100 * kMillisecond;

}  // namespace

Progress::Progress(bool wanted) : on_(wanted && isatty(STDERR_FILENO) == 1) {}

std::string progress_line(const std::string& what, std::uint64_t done, std::uint64_t total) {
  const std::uint64_t shown = std::min(done, total);
  const std::uint64_t filled = total == 0 ? 0 : shown * kWidth / total;
  return fmt::format("{} [{:#<{}}{: <{}}] {:3}%", what, "", filled, "", kWidth - filled,
                     total == 0 ? 0 : shown * 100 / total);
}

void Progress::show(const std::string& what, std::uint64_t done, std::uint64_t total) {
  if (!on_ || monotonic_now() - drawn_at_ < kEvery) return;
  drawn_at_ = monotonic_now();
  drawn_ = true;
  fmt::print(stderr, "\r\033[K{}", progress_line(what, done, total));
  std::fflush(stderr);
}

void Progress::clear() {
  if (!drawn_) return;
  drawn_ = false;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
}

}  // namespace tally::perf
