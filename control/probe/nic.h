// The network interface that has an address, and the speed that the kernel declares for it.
#pragma once

#include <string>

#include "base/result.h"

namespace tally::control::probe {

struct Nic {
  std::string interface;
  double speed = 0;  // bytes per second, each way; 0: the kernel does not say
};

// `host`: a numeric address or a name of this machine. `root`: of the files, "" for the machine's
// own. An error says that no interface has it.
Result<Nic> nic_with(const std::string& host, const std::string& root = {});

}  // namespace tally::control::probe
