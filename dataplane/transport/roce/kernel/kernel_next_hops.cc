#include "dataplane/transport/roce/kernel/kernel_next_hops.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/system/blocked_signals.h"

namespace tally::transport::roce {

KernelNextHops::KernelNextHops(std::unique_ptr<KernelTables> tables, const HopTableOptions& options)
    : tables_(std::move(tables)), table_(options) {
  const BlockedSignals blocked;
  thread_ = std::thread([this] { run(); });
}

KernelNextHops::~KernelNextHops() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  wakes_.notify_one();
  thread_.join();
}

Resolution KernelNextHops::resolve(const IpAddress& target, Nanos now) {
  const std::lock_guard lock(mutex_);
  const Nanos before = table_.next_deadline();
  const Resolution found = table_.resolve(target, now);
  if (table_.next_deadline() < before) wakes_.notify_one();
  return found;
}

void KernelNextHops::run() {
  constexpr Nanos kLongestWait = 60 * kSecond;
  std::unique_lock lock(mutex_);
  while (!is_ending_) {
    const auto target = table_.next_due(monotonic_now());
    if (!target) {
      const Nanos wait =
          std::clamp<Nanos>(table_.next_deadline() - monotonic_now(), 0, kLongestWait);
      wakes_.wait_for(lock, std::chrono::nanoseconds(wait));
      continue;
    }
    lock.unlock();
    const Resolution answer = look_up(*tables_, *target);
    lock.lock();
    table_.record(*target, answer, monotonic_now());
  }
}

}  // namespace tally::transport::roce
