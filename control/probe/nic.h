// The network interface with an address, and the speed that the kernel reports for it.
#pragma once

#include <string>

#include "base/result.h"

namespace tally::control::probe {

struct Nic {
  std::string interface;
  double speed = 0;  // bytes per second in each direction; 0 when the kernel does not report it
};

// Returns the NIC with this address. `host` is a numeric address or a name of this machine. `root`
// is the root folder of the files; "" means the machine's own. An error says that no interface has
// the address, or why the addresses are unknown.
Result<Nic> nic_with(const std::string& host, const std::string& root = {});

}  // namespace tally::control::probe
