// For tests: the end of an operation, for which a thread may wait.
#pragma once

#include <atomic>

#include "integrations/python/src/communicator.h"

namespace tally::python {

struct Waited {
  std::atomic<bool> ended{false};
  Outcome outcome;

  Done done() {
    return [this](const Outcome& one) {
      outcome = one;
      ended.store(true, std::memory_order_release);
    };
  }
  bool over() const { return ended.load(std::memory_order_acquire); }
};

}  // namespace tally::python
