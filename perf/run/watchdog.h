// Watches a worker that has no conductor. It reports what a worker without progress waits for. It
// ends the process after --timeout seconds without progress, wherever the worker waits. It has a
// thread.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "base/clock.h"
#include "perf/options/options.h"

namespace tally::perf {

class Watchdog {
 public:
  // `options` is borrowed for the life of the watchdog.
  explicit Watchdog(const Options& options);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // The worker calls this when it makes progress.
  void progress() { last_.store(monotonic_now(), std::memory_order_relaxed); }

 private:
  void watch(const std::stop_token& stop);
  void report(Nanos now);
  [[noreturn]] void give_up() const;

  const Options& options_;
  std::string job_;
  std::atomic<Nanos> last_{monotonic_now()};  // relaxed order, because no other data depends on it
  std::string reported_;
  Nanos look_again_ = 0;
  std::jthread thread_;  // last member, because it uses all members above
};

}  // namespace tally::perf
