#include "dataplane/transport/roce/pair/request_packets.h"

#include <algorithm>

namespace tally::transport::roce {

Outgoing read_request(const Request& request, const Work& work) {
  return {
      .opcode = Opcode::kReadRequest,
      .psn = request.first,
      .asks_for_ack = true,
      .reth = {work.address + request.offset, work.key, static_cast<std::uint32_t>(request.bytes)}};
}

Outgoing message_packet(const Request& request, const Work& work, std::uint32_t index,
                        std::uint32_t mtu) {
  const bool is_last = index + 1 == request.packets;
  const bool has_immediate = is_last && work.immediate.has_value();
  const std::uint64_t at = std::uint64_t{index} * mtu;
  Outgoing packet;
  if (request.kind == WorkKind::kSend) {
    packet.opcode = part_of(Opcode::kSendFirst, Opcode::kSendMiddle,
                            has_immediate ? Opcode::kSendLastImmediate : Opcode::kSendLast,
                            has_immediate ? Opcode::kSendOnlyImmediate : Opcode::kSendOnly, index,
                            request.packets);
  } else {
    packet.opcode = part_of(Opcode::kWriteFirst, Opcode::kWriteMiddle,
                            has_immediate ? Opcode::kWriteLastImmediate : Opcode::kWriteLast,
                            has_immediate ? Opcode::kWriteOnlyImmediate : Opcode::kWriteOnly, index,
                            request.packets);
  }
  packet.psn = request.first + index;
  packet.asks_for_ack = is_last;
  packet.reth = {work.address, work.key, static_cast<std::uint32_t>(work.bytes)};
  packet.immediate = work.immediate.value_or(0);
  packet.payload = work.source == nullptr ? nullptr : work.source + at;
  packet.bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(mtu, work.bytes - at));
  return packet;
}

}  // namespace tally::transport::roce
