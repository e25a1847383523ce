// Detects two calls on one session at the same time. Only one thread at a time may use a session.
#pragma once

#include <atomic>

namespace tally::client {

class CallGuard {
 public:
  // Begins a call in one atomic operation. Null on success; the caller must then call end().
  // Otherwise returns the name of the call that is in progress. `call` must be a string literal.
  const char* begin(const char* call) {
    const char* under_way = nullptr;
    // Acquire pairs with the release in end(), so that another thread may use the session after the
    // first thread has stopped.
    return under_way_.compare_exchange_strong(under_way, call, std::memory_order_acquire)
               ? nullptr
               : under_way;
  }
  void end() { under_way_.store(nullptr, std::memory_order_release); }

 private:
  std::atomic<const char*> under_way_{nullptr};
};

}  // namespace tally::client
