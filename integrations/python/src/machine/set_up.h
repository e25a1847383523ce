// How the ranks of a process group make machine groups, or agree that there are none.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "integrations/python/src/communicator.h"
#include "integrations/python/src/machine/reducer.h"

namespace tally::python {

struct MachineSetUp {
  std::string host;  // name_of_host()
  const cuda::Driver* driver = nullptr;
  cuda::Context context = nullptr;  // of this rank's GPU
  // Called now and then while it waits; may throw.
  std::function<void()> interrupted{};
};

// Collective, and waits for all ranks. All get machine groups, or all get an error with the reason
// why there are none. The communicator's end closes the reducer. Throws Failure when the ranks
// cannot agree, because one is lost or late.
Result<std::shared_ptr<MachineReducer>> set_up_machines(Communicator& communicator,
                                                        const MachineSetUp& set_up);

}  // namespace tally::python
