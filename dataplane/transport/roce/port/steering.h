// Rules for a NIC's filter, so that each queue gets the packets of its own queue pairs.
#pragma once

#include <cstdint>

namespace tally::transport::roce {

// Makes one rule for each queue and IP version, by the destination queue pair of the RoCE header.
// Returns false where the driver has no such filter; then no rule is left. Precondition: the port
// has started.
bool steer_by_pair(std::uint16_t port, std::uint32_t queues);

}  // namespace tally::transport::roce
