#include "control/threads/thread_pool.h"

#include <utility>

#include "base/system/blocked_signals.h"

namespace tally::control {

ThreadPool::ThreadPool(asio::io_context& io, unsigned threads) : io_(io) {
  const BlockedSignals blocked;
  for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
  std::unique_lock lock(mutex_);
  over_ = true;
  std::deque<Task> dropped = std::exchange(waiting_, {});
  lock.unlock();
  dropped.clear();
  news_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run(std::function<void()> work, WorkDone then) {
  Task task{std::move(work), std::make_shared<Completion>(io_, std::move(then))};
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(task));
  news_.notify_one();
}

void ThreadPool::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    news_.wait(lock, [this] { return over_ || !waiting_.empty(); });
    if (over_) return;
    Task task = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    if (!within_memory(task.work)) task.done->set_failed();
    task.work = nullptr;  // its captures end here, before the completion is posted
    std::exchange(task.done, nullptr)->post();
    lock.lock();
  }
}

}  // namespace tally::control
