// The packets of a requester's requests. Pure.
#pragma once

#include <cstdint>

#include "dataplane/transport/roce/pair/pair.h"
#include "dataplane/transport/roce/pair/request_queue.h"

namespace tally::transport::roce {

// `work`: that of the request.
Outgoing read_request(const Request& request, const Work& work);
// Packet `index` of a SEND or WRITE. Its last one asks for an acknowledgement.
Outgoing message_packet(const Request& request, const Work& work, std::uint32_t index,
                        std::uint32_t mtu);

}  // namespace tally::transport::roce
