// The rails of a configuration, and the state of their network interfaces.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/config/config.h"
#include "control/coordinator/records/rails.h"

namespace tally::control {

// The rails of network.rails and network.speeds, with the shards dealt to all of them; empty when
// the keys are empty. An error names the key, the value and what is allowed.
Result<std::vector<Rail>> configured_rails(const Config& config);

// An address of this machine.
struct Interface {
  std::string name;
  std::string address;  // numeric
  bool up = false;      // enabled, and has a link
  int prefix = 0;       // bits of its network prefix
};
// The addresses of this network namespace. Asks the kernel, which takes microseconds.
std::vector<Interface> interfaces();
// A numeric address as 32 or 128 digits 0 and 1; empty when the text is no address.
std::string address_bits(const std::string& address);
// The interface with the address; null when none has it.
const Interface* interface_of(std::span<const Interface> all, std::string_view address);

// By shard: the name of the interface that has its rail's address, or, without rails, the address
// of listen_tcp; "" when no interface has it.
std::vector<std::string> nics_of_shards(const Config& config, const std::vector<Rail>& rails,
                                        std::span<const Interface> all);

// Updates `up` of every rail, and returns the rails whose state has changed. A rail is down when it
// has no shards or when no interface that is up has its address.
std::vector<std::uint32_t> refresh(std::vector<Rail>& rails, std::span<const Interface> all);

}  // namespace tally::control
