// Threads for tasks that may take long, above all making and ending queue pairs. The control thread
// hands over a task and is called back when it ends.
#pragma once

#include <asio/io_context.hpp>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "control/threads/completion.h"

namespace tally::control {

// Number of threads that make queue pairs: as many for the sessions of this node as for its
// connections to parent nodes.
inline constexpr unsigned kMakers = 4;

class ThreadPool {
 public:
  // io is the control thread's loop; borrowed.
  ThreadPool(asio::io_context& io, unsigned threads);
  // Destroys the tasks that have not begun, then waits for the others.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Runs `work` on one of the threads, then `then` on the control thread; its argument says whether
  // the work ran out of memory. Tasks begin in the order of the calls. When run() throws, it has
  // had no effect.
  void run(std::function<void()> work, WorkDone then);

 private:
  struct Task {
    std::function<void()> work;
    std::shared_ptr<Completion> done;
  };
  void work();

  asio::io_context& io_;
  std::mutex mutex_;  // protects the members below
  std::condition_variable news_;
  std::deque<Task> waiting_;
  bool over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tally::control
