// The address resolver of all queues of a port. Any thread: one queue receives frames for it, and
// all look up addresses, about once a second for each peer.
#pragma once

#include <atomic>
#include <mutex>
#include <type_traits>

#include "dataplane/transport/roce/port/address_resolver.h"
#include "dataplane/transport/roce/port/next_hops.h"

namespace tally::transport::roce {

class SharedResolver final : public NextHops {
 public:
  explicit SharedResolver(const ResolverOptions& options) : resolver_(options) {}

  // As AddressResolver's functions of these names.
  std::size_t receive(std::span<const std::byte> frame, Nanos now, std::span<std::byte> out) {
    return locked([&] { return resolver_.receive(frame, now, out); });
  }
  Resolution resolve(const IpAddress& target, Nanos now) override {
    return locked([&] { return resolver_.resolve(target, now); });
  }
  std::size_t poll(Nanos now, std::span<std::byte> out) {
    return locked([&] { return resolver_.poll(now, out); });
  }
  SharedResolver* responder() override { return this; }
  // Whether poll() may have a request. Without a lock, because every poll of a queue asks.
  bool is_due(Nanos now) const { return now >= next_deadline_.load(std::memory_order_relaxed); }

 private:
  template <typename Call>
  std::invoke_result_t<Call> locked(Call call) {
    const std::lock_guard lock(mutex_);
    auto result = call();
    next_deadline_.store(resolver_.next_deadline(), std::memory_order_relaxed);
    return result;
  }

  std::mutex mutex_;
  AddressResolver resolver_;
  std::atomic<Nanos> next_deadline_{kForever};
};

}  // namespace tally::transport::roce
