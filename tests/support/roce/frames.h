// Whole frames of RoCEv2, for tests: written and read by the code of the transport.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "dataplane/transport/roce/wire/packet.h"

namespace tally::testing {

using FrameBytes = std::vector<std::byte>;

// The frame of a packet whose route is complete, with its ICRC. Sets payload, network, base and
// headers of the packet.
FrameBytes write_frame(transport::roce::Packet& packet, std::span<const std::byte> payload);

// The packet in a frame. Nothing when it cannot be read or its ICRC is wrong.
std::optional<transport::roce::Packet> read_frame(std::span<const std::byte> frame);

}  // namespace tally::testing
