// The address of the Ethernet port of network.roce: one of the port alone, or, beside the kernel,
// one of the kernel's interface.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "control/config/config.h"
#include "control/config/rails.h"
#include "dataplane/transport/roce/port/address_resolver.h"

namespace tally::control {

struct RoceAddress {
  transport::roce::LocalAddress local{};  // prefix and gateway: of a port alone
  std::string text{};                     // without a prefix
  bool is_beside_kernel = false;
};

// An error names the key, the value and the remedy. Precondition: config.roce is not empty.
Result<RoceAddress> roce_address(const Config& config, std::span<const Interface> all);

}  // namespace tally::control
