// The rails of a configuration, and the interfaces below them: which are up.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/config.h"
#include "control/coordinator/rails.h"

namespace tally::control {

// What network.rails and network.speeds name, with the shards dealt to all; none where they are
// empty. The error names the key, the value and what is allowed.
Result<std::vector<Rail>> configured_rails(const Config& config);

// An address of this machine.
struct Interface {
  std::string name;
  std::string address;  // numeric
  bool up = false;      // and there is a link
  int prefix = 0;       // bits of its network
};
// Of this network namespace; asks the kernel, which takes microseconds.
std::vector<Interface> interfaces();
// A numeric address as digits 0 and 1, of 32 or 128 bits; empty: it is none.
std::string address_bits(const std::string& address);
// Null: none has the address.
const Interface* interface_of(std::span<const Interface> all, std::string_view address);

// By shard: the interface that its rail's address has, or where there are no rails that of
// listen_tcp; "" where none has it.
std::vector<std::string> nics_of_shards(const Config& config, const std::vector<Rail>& rails,
                                        std::span<const Interface> all);

// Whether each rail with shards is up, from now on; those that have changed. An address that no
// interface has is down.
std::vector<std::uint32_t> refresh(std::vector<Rail>& rails, std::span<const Interface> all);

}  // namespace tally::control
