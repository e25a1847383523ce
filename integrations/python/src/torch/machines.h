// The machine groups of a process group ($TALLY_MACHINE_GROUPS): made, or given up, when the first
// all-reduce asks for them.
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "integrations/python/src/communicator.h"
#include "integrations/python/src/machine/reducer.h"
#include "integrations/python/src/torch/comm_streams.h"

namespace tally::python {

// One thread at a time.
class Machines {
 public:
  explicit Machines(std::shared_ptr<Communicator> communicator)
      : communicator_(std::move(communicator)) {}

  // Null: all-reduces do not go through machine groups. The first call is collective, waits on the
  // host, and logs the decision at rank 0. All calls are for the same device. Throws Failure.
  MachineReducer* of(const CommStreams& streams, c10::Device device);

 private:
  std::shared_ptr<Communicator> communicator_;
  bool is_decided_ = false;
  std::shared_ptr<MachineReducer> reducer_;
};

}  // namespace tally::python
