// A thread for long work of many owners. It does the work of one owner in order, one slice at a
// time. Owners take turns after each slice, so no owner waits until another's work is complete.
#pragma once

#include <asio/io_context.hpp>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "control/threads/completion.h"

namespace tally::control {

class FairThread {
 public:
  using Owner = std::uint64_t;
  // Does a part of the work, which takes some milliseconds. Returns true when there is more.
  using Slice = std::function<bool()>;

  // io is the control thread's loop; borrowed.
  explicit FairThread(asio::io_context& io);
  // Waits for the current slice to end, and drops the rest.
  ~FairThread();
  FairThread(const FairThread&) = delete;
  FairThread& operator=(const FairThread&) = delete;

  // Calls `slice` on the thread until it returns false, then calls `then` on the control thread.
  // When run() throws, it has had no effect.
  void run(Owner owner, Slice slice, WorkDone then);

 private:
  struct Work {
    Slice slice;
    std::shared_ptr<Completion> done;
  };
  struct Queue {
    Owner owner = 0;
    std::deque<Work> works;
  };
  void work();
  void take_turn(std::unique_lock<std::mutex>& lock);

  asio::io_context& io_;
  std::mutex mutex_;  // protects the members below
  std::condition_variable changed_;
  std::list<Queue> queues_;  // no queue is empty; the first one has the next turn
  bool over_ = false;
  std::thread thread_;
};

}  // namespace tally::control
