// The packet for what a half of a queue pair sends.
#pragma once

#include <cstdint>

#include "dataplane/transport/roce/pair/pair.h"
#include "dataplane/transport/roce/wire/packet.h"

namespace tally::transport::roce {

// pair: the number of the peer's queue pair.
inline Packet packet_of(const Outgoing& outgoing, const Route& route, std::uint32_t pair) {
  Packet packet;
  packet.route = route;
  packet.opcode = outgoing.opcode;
  packet.asks_for_ack = outgoing.asks_for_ack;
  packet.pair = pair;
  packet.psn = outgoing.psn;
  packet.reth = outgoing.reth;
  packet.aeth = outgoing.aeth;
  packet.immediate = outgoing.immediate;
  packet.payload = outgoing.bytes;
  return packet;
}

}  // namespace tally::transport::roce
