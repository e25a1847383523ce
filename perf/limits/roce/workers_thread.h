// What the workers' thread does. The node's thread commands it.
#pragma once

#include <atomic>
#include <cstdint>

#include "perf/limits/roce/cost.h"
#include "perf/limits/roce/workers.h"

namespace tally::perf {

class WorkersThread {
 public:
  enum class Mode { kServe, kFlood, kReduce, kBroadcast, kStop };

  explicit WorkersThread(Workers& workers) : workers_(workers) {}

  void run() {
    Mode mode = Mode::kServe;
    for (std::uint32_t known = 0; mode != Mode::kStop;) {
      // Acquire pairs with the release in command().
      if (const std::uint32_t wanted = commands_.load(std::memory_order_acquire); wanted != known) {
        obey(mode = mode_);
        announced_.store(workers_.announced(), std::memory_order_relaxed);
        // Release pairs with the acquire in command().
        obeyed_.store(known = wanted, std::memory_order_release);
      }
      meter_.measure([&] { return mode == Mode::kFlood ? workers_.flood() : workers_.poll(); });
      announced_.store(workers_.announced(), std::memory_order_relaxed);
    }
  }

  // Calls `meanwhile` until the thread has obeyed. copies: as Workers::set_copies().
  template <typename Meanwhile>
  void command(Mode mode, Meanwhile meanwhile, bool copies = false) {
    mode_ = mode;
    copies_ = copies;
    const std::uint32_t number = commands_.load(std::memory_order_relaxed) + 1;
    // Release pairs with the acquire in run().
    commands_.store(number, std::memory_order_release);
    // Acquire pairs with the release in run().
    while (obeyed_.load(std::memory_order_acquire) != number) meanwhile();
  }

  // Operations of the workers that have not ended.
  std::uint32_t announced() const { return announced_.load(std::memory_order_relaxed); }
  // What the workers did and received between the last two commands; failed(): operations that have
  // failed so far.
  const Cost& last() const { return last_; }
  std::uint64_t received_bytes() const { return received_bytes_; }
  std::uint64_t failed() const { return failed_; }

 private:
  void obey(Mode mode) {
    last_ = meter_.cost();
    failed_ = workers_.failed();
    received_bytes_ = workers_.received_bytes() - received_before_;
    received_before_ += received_bytes_;
    meter_.reset();
    workers_.set_copies(copies_);
    workers_.end();
    if (mode == Mode::kReduce) workers_.announce(wire::Kind::kReduce);
    if (mode == Mode::kBroadcast) workers_.announce(wire::Kind::kBroadcast);
  }

  Workers& workers_;
  CycleMeter meter_;
  Mode mode_ = Mode::kServe;
  bool copies_ = false;
  Cost last_;
  std::uint64_t failed_ = 0;
  std::uint64_t received_bytes_ = 0;
  std::uint64_t received_before_ = 0;
  std::atomic<std::uint32_t> announced_{0};
  std::atomic<std::uint32_t> commands_{0};
  std::atomic<std::uint32_t> obeyed_{0};
};

}  // namespace tally::perf
