// The hosts of endpoints of transport fabric, and the hosts where a session may have endpoints. A
// node connects to the endpoint that its client names. So it must not trust the client's word for
// the address (docs/decisions/0025-endpoints-and-keys.md).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dataplane/transport/fabric/domain.h"

namespace tally::control {

// The host in an endpoint's name: "10.0.0.2". Empty when the provider's names are no IP addresses.
std::string host_of(const transport::fabric::Name& name);

// Refuses an endpoint whose host is not one of `proven`, the hosts that connections of the session
// have come from. Endpoints of EFA are not checked.
Outcome check_endpoint(const transport::fabric::Name& name, std::string_view provider,
                       std::span<const std::string> proven);

// Adds the host of a connection to those that the session has proven, unless it is one already.
// Refuses an empty host, of a connection that is not TCP, and more hosts than a client can have.
Outcome add_proven(std::vector<std::string>& proven, const std::string& host);

}  // namespace tally::control
