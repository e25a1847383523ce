// A requester, and the packets that a test gives it and takes from it.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "dataplane/transport/roce/pair/requester.h"

namespace tally::transport::roce {

inline constexpr std::uint8_t kAck = kAnyCredits;

class RequesterTest : public ::testing::Test {
 public:
  static constexpr Nanos kAckTimeout = AnswerClock::kLeastWait / 10;  // so there are no probes

  static PairOptions options() {
    PairOptions options;
    options.first_sent = Psn(100);
    options.mtu = 256;
    options.reads_out = 2;
    options.ack_timeout = kAckTimeout;
    options.tries = 2;
    options.reorder_wait = 10'000;
    return options;
  }
  void post(WorkKind kind, std::uint64_t id, std::uint64_t bytes) {
    requester.post({.kind = kind,
                    .id = id,
                    .source = kind == WorkKind::kRead ? nullptr : memory.data(),
                    .bytes = bytes,
                    .address = 0x1000,
                    .key = 7});
  }
  // The PSNs of what is sent now.
  std::vector<std::uint32_t> sent() {
    std::vector<std::uint32_t> numbers;
    packets.clear();
    for (Outgoing packet; requester.next(packet, now); packet = {}) {
      numbers.push_back(packet.psn.number());
      packets.push_back(packet);
    }
    return numbers;
  }
  void acknowledge(std::uint32_t psn, std::uint8_t syndrome = kAck, std::uint32_t messages = 0) {
    Packet packet;
    packet.opcode = Opcode::kAcknowledge;
    packet.psn = Psn(psn);
    packet.aeth = {syndrome, messages};
    requester.receive(packet, now);
  }
  std::optional<Arrived> answer(std::uint32_t psn, Opcode opcode, std::uint32_t bytes = 256) {
    Packet packet;
    packet.opcode = opcode;
    packet.psn = Psn(psn);
    packet.aeth = {kAck, 0};
    packet.payload = bytes;
    return requester.receive(packet, now);
  }
  void answer_all(std::uint32_t first, std::uint32_t count, std::uint32_t bytes_of_last = 256) {
    for (std::uint32_t i = 0; i < count; ++i) {
      answer(first + i,
             part_of(Opcode::kReadFirst, Opcode::kReadMiddle, Opcode::kReadLast, Opcode::kReadOnly,
                     i, count),
             i + 1 == count ? bytes_of_last : 256);
    }
  }
  std::vector<std::uint64_t> done() {
    std::vector<std::uint64_t> ids;
    for (Done one; requester.next_done(one);) ids.push_back(one.fine ? one.id : one.id + 1000);
    return ids;
  }
  void pass(Nanos span) {
    now += span;
    requester.tick(now);
  }

  Requester requester{options()};
  std::array<std::byte, 2048> memory{};
  std::vector<Outgoing> packets;
  Nanos now = 1;
};

}  // namespace tally::transport::roce
