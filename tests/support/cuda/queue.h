// The threads of a device: hardware queues, and the thread of host functions.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include "tests/support/cuda/operation.h"

namespace tally::test::cuda {

struct Machine;
struct ContextState;

// Runs operations strictly in the order of their enqueueing. An operation that waits blocks all
// later operations of the queue, also those of other streams.
class Queue {
 public:
  Queue(Machine& machine, ContextState& context, std::uint64_t seed);
  // Precondition: stop(), and the caller does not hold the lock.
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // The caller of these holds Machine::mutex.
  void enqueue(OperationPtr operation);
  void cancel_all();
  // Cancels all; the thread ends.
  void stop();
  // The first one is in progress.
  const std::deque<OperationPtr>& pending() const { return pending_; }

 private:
  using Lock = std::unique_lock<std::mutex>;
  void run();
  void run_one(Lock& lock, Operation& operation);

  Machine& machine_;
  ContextState& context_;
  std::minstd_rand random_;
  std::deque<OperationPtr> pending_;
  std::condition_variable arrived_;
  bool stopping_ = false;
  std::thread thread_;
};

// Runs the host functions of all streams of a context, one at a time.
class HostThread {
 public:
  HostThread();
  ~HostThread();
  HostThread(const HostThread&) = delete;
  HostThread& operator=(const HostThread&) = delete;

  // Returns after the function has run.
  void call(HostFunction function, void* user);

 private:
  struct Call {
    HostFunction function;
    void* user;
    bool done = false;
  };
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Call*> calls_;
  bool stopping_ = false;
  std::thread thread_;
};

// What the calling thread runs for a device: "a kernel", "a host function". Null: nothing, so it
// may call CUDA.
const char* runs_for_device();

}  // namespace tally::test::cuda
