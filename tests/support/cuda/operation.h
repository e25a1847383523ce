// A unit of work of a device.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/cuda/cuda_process.h"

namespace tally::test::cuda {

// Memory that an operation touches: of a device, or registered memory of the host.
struct Use {
  Pointer begin;
  std::size_t bytes;
};

struct Operation;
using OperationPtr = std::shared_ptr<Operation>;

// What an operation does. A graph keeps it, and makes operations of it at each launch.
struct Work {
  std::string what;
  std::vector<Use> uses = {};
  // Runs on the thread of a queue, without the lock. Another code than kSuccess breaks the context.
  std::function<Code(const Operation&)> run = {};
  bool memory_operation = false;  // waits for a word, or writes one
  // What run() waits for; null: it does not wait. The caller holds the lock.
  std::function<std::string()> waits_for = {};
};

// Guarded by Machine::mutex, except where noted. While started and not done, only the thread of the
// queue uses work.run.
struct Operation {
  Work work;
  Stream stream = nullptr;
  std::vector<OperationPtr> after;  // ends before this begins; empty once this is done
  bool started = false;
  bool done = false;
  std::atomic<bool> cancelled = false;  // it ends soon, without its effect; any thread
  Clock::time_point ended;
};

}  // namespace tally::test::cuda
