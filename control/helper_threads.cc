#include "control/helper_threads.h"

#include <asio/post.hpp>
#include <utility>

#include "base/blocked_signals.h"

namespace tally::control {

HelperThreads::HelperThreads(asio::io_context& io, unsigned threads) : io_(io) {
  const BlockedSignals blocked;
  for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

HelperThreads::~HelperThreads() {
  std::unique_lock lock(mutex_);
  over_ = true;
  std::deque<Errand> dropped = std::exchange(waiting_, {});
  lock.unlock();
  news_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void HelperThreads::run(std::function<void()> task, std::function<void()> then) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back({std::move(task), std::move(then)});
  news_.notify_one();
}

void HelperThreads::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    news_.wait(lock, [this] { return over_ || !waiting_.empty(); });
    if (over_) return;
    Errand errand = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    errand.task();
    errand.task = nullptr;  // what it holds ends here, before anybody hears
    asio::post(io_, std::move(errand.then));
    lock.lock();
  }
}

}  // namespace tally::control
