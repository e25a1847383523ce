// One operation in the simulator, whatever carries it out.
#pragma once

#include <vector>

#include "control/plan/model/network.h"
#include "control/sim/core/fabric.h"

namespace tally::simulator {

// By machine: the time in seconds at which the worker has its gradient. 0 for helpers.
using ReadyTimes = std::vector<double>;

class Run : public Receiver {
 public:
  // Sends what can be sent at once. Called once, before Fabric::run().
  virtual void start() = 0;
  // Whether all workers have the whole result.
  virtual bool done() const = 0;
};

}  // namespace tally::simulator
