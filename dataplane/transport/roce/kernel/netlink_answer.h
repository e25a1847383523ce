// Reads the kernel's answers to the requests of Rtnetlink. Pure. An answer that is truncated, or
// has lengths that do not fit, is no answer.
#pragma once

#include <cstddef>
#include <span>

#include "dataplane/transport/roce/kernel/kernel_tables.h"
#include "dataplane/transport/roce/wire/packet.h"

namespace tally::transport::roce {

// `message`: the bytes of one datagram of the kernel, aligned as nlmsghdr; empty: it did not come.
// `target`: that of the request.
RouteAnswer read_route(std::span<const std::byte> message, const IpAddress& target);
HopEntry read_entry(std::span<const std::byte> message);

}  // namespace tally::transport::roce
