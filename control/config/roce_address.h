// The IP address of the Ethernet port of network.roce. The port either has an address that the
// kernel does not have, or, beside the kernel, one of the kernel's addresses of its interface.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/config/config.h"
#include "control/config/rails.h"
#include "dataplane/transport/roce/port/address_resolver.h"

namespace tally::control {

struct RoceAddress {
  transport::roce::LocalAddress local{};  // prefix and gateway: not of a port beside the kernel
  std::string text{};                     // without a prefix
  bool is_beside_kernel = false;
};

// An error names the key and the value. The remedy follows its first ": ". Precondition:
// config.roce is not empty.
Result<RoceAddress> roce_address(const Config& config, std::span<const Interface> all);

// The kernel's addresses of an interface, without link-local ones; IPv4 first.
std::vector<std::string> kernel_addresses(std::string_view interface,
                                          std::span<const Interface> all);

}  // namespace tally::control
