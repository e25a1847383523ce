#include "control/threads/fair_thread.h"

#include <algorithm>
#include <utility>

#include "base/system/blocked_signals.h"

namespace tally::control {

FairThread::FairThread(asio::io_context& io) : io_(io) {
  const BlockedSignals blocked;
  thread_ = std::thread([this] { work(); });
}

FairThread::~FairThread() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void FairThread::run(Owner owner, Slice slice, WorkDone then) {
  Work work{std::move(slice), std::make_shared<Completion>(io_, std::move(then))};
  const std::lock_guard lock(mutex_);
  const auto queue = std::find_if(queues_.begin(), queues_.end(),
                                  [owner](const Queue& one) { return one.owner == owner; });
  if (queue != queues_.end()) {
    queue->works.push_back(std::move(work));
  } else {
    std::list<Queue> fresh(1);  // only the splice, which cannot fail, changes queues_
    fresh.front().owner = owner;
    fresh.front().works.push_back(std::move(work));
    queues_.splice(queues_.end(), fresh);
  }
  changed_.notify_one();
}

void FairThread::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return over_ || !queues_.empty(); });
    if (over_) return;
    take_turn(lock);
  }
}

// The queue stays in its place meanwhile, and other queues may be added behind it. Work is added at
// the back of a deque, which does not move the work in it.
void FairThread::take_turn(std::unique_lock<std::mutex>& lock) {
  const auto queue = queues_.begin();
  Work& work = queue->works.front();
  lock.unlock();
  bool more = false;
  if (!within_memory([&] { more = work.slice(); })) work.done->set_failed();
  if (!more) {
    work.slice = nullptr;  // its captures end here, before the completion is posted
    work.done->post();
  }
  lock.lock();
  if (!more) queue->works.pop_front();
  if (queue->works.empty()) {
    queues_.erase(queue);
  } else {
    queues_.splice(queues_.end(), queues_, queue);
  }
}

}  // namespace tally::control
