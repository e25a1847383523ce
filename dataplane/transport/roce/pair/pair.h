// What both halves of a queue pair have in common. A queue pair is a reliable connection (RC):
// its requester sends requests and takes their answers, its responder does the reverse. Both are
// state machines without input and output: bytes, times and work go in, packets and completions
// come out. One thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "dataplane/transport/roce/wire/opcode.h"
#include "dataplane/transport/roce/wire/packet.h"
#include "dataplane/transport/roce/wire/psn.h"

namespace tally::transport::roce {

// Messages are counted with 24 bits.
inline constexpr std::uint32_t kMessageMask = (1U << 24) - 1;

struct PairOptions {
  Psn first_sent{};              // of this end's requests
  Psn first_expected{};          // of the other end's requests
  std::uint32_t mtu = 1024;      // bytes of payload in a full packet: a power of two, 256 to 4096
  std::uint32_t reads_out = 16;  // READ requests that the other end answers at a time
  std::uint32_t reads_in = 16;   // READ requests that this end answers at a time
  // Without any answer for so long, the requester sends again. It waits twice as long each time, up
  // to 8 times as long.
  Nanos ack_timeout = 67'108'864;
  std::uint32_t tries = 7;       // that often in a row; then the connection fails
  Nanos reorder_wait = 100'000;  // a packet that is overtaken for so long counts as lost
};

// A packet that is to be sent. The payload is borrowed from the caller's memory.
struct Outgoing {
  Opcode opcode{};
  Psn psn{};
  bool asks_for_ack = false;
  Reth reth{};
  Aeth aeth{};
  std::uint32_t immediate = 0;
  const std::byte* payload = nullptr;
  std::uint32_t bytes = 0;  // of the payload
};

// The packets that so many bytes need; a message without bytes needs one too.
constexpr std::uint32_t packets_of(std::uint64_t bytes, std::uint32_t mtu) {
  return bytes == 0 ? 1 : static_cast<std::uint32_t>((bytes + mtu - 1) / mtu);
}

// The opcode of packet `index` of `count`.
constexpr Opcode part_of(Opcode first, Opcode middle, Opcode last, Opcode only, std::uint32_t index,
                         std::uint32_t count) {
  if (count == 1) return only;
  if (index == 0) return first;
  return index + 1 == count ? last : middle;
}

}  // namespace tally::transport::roce
