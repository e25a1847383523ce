// Threads for what may take long, a queue pair's making and its end above all: the control thread
// hands it over and hears when it is done.
#pragma once

#include <asio/io_context.hpp>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tally::control {

// How many threads make queue pairs for each end of sessions.
inline constexpr unsigned kMakers = 4;

class HelperThreads {
 public:
  // `io`: the control thread's loop. Borrowed.
  HelperThreads(asio::io_context& io, unsigned threads);
  // Waits for the tasks that have begun; the others are dropped.
  ~HelperThreads();
  HelperThreads(const HelperThreads&) = delete;
  HelperThreads& operator=(const HelperThreads&) = delete;

  // Runs `task` on one of the threads, then `then` on the control thread. Tasks begin in order.
  void run(std::function<void()> task, std::function<void()> then);

 private:
  struct Errand {
    std::function<void()> task;
    std::function<void()> then;
  };
  void work();

  asio::io_context& io_;
  std::mutex mutex_;  // of what follows
  std::condition_variable news_;
  std::deque<Errand> waiting_;
  bool over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tally::control
