#include "perf/run/watchdog.h"

#include <fmt/format.h>
#include <unistd.h>

#include <condition_variable>
#include <iostream>
#include <mutex>

#include "perf/run/waiting.h"

namespace tally::perf {
namespace {

constexpr std::chrono::milliseconds kTick{100};
constexpr Nanos kLookEvery = 5 * kSecond;

Nanos nanos_of(double seconds) {
  return static_cast<Nanos>(seconds * static_cast<double>(kSecond));
}

}  // namespace

Watchdog::Watchdog(const Options& options)
    : options_(options),
      job_(options.job.empty() ? "default" : options.job),
      thread_([this](const std::stop_token& stop) { watch(stop); }) {}

void Watchdog::watch(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any ended;
  std::unique_lock lock(mutex);
  while (!ended.wait_for(lock, stop, kTick, [&stop] { return stop.stop_requested(); })) {
    const Nanos now = monotonic_now();
    const Nanos still = now - last_.load(std::memory_order_relaxed);
    if (options_.timeout_s > 0 && still >= nanos_of(options_.timeout_s)) give_up();
    if (still >= nanos_of(kSilenceS)) report(now);
  }
}

void Watchdog::report(Nanos now) {
  if (now < look_again_) return;
  look_again_ = now + kLookEvery;
  std::string awaited = what_is_awaited(options_.address, job_, options_.token);
  if (awaited.empty() || awaited == reported_) return;
  std::cerr << fmt::format("tally-perf: rank {}: {}\n", options_.rank, awaited);
  reported_ = std::move(awaited);
}

// The worker may be in a call of the library to a node that has stopped, where no exception reaches
// it. The node takes the end of the process as the end of its session.
void Watchdog::give_up() const {
  const std::string awaited = what_is_awaited(options_.address, job_, options_.token);
  std::cerr << fmt::format("tally-perf: rank {}: no progress for {} s{}{}\n", options_.rank,
                           options_.timeout_s, awaited.empty() ? "" : "; ", awaited);
  ::_exit(kExitTimeout);
}

}  // namespace tally::perf
