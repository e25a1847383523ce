// What tests of RoCE ports share: packets, payloads, frames, and ports that are small. The ports
// are 10.9.0.1 and fd00::1.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "dataplane/transport/roce/port/port.h"
#include "dataplane/transport/roce/port/test_eal.h"

namespace tally::transport::roce {

using Bytes = std::vector<std::byte>;

inline IpAddress ipv4(std::uint8_t last) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 9, 0, last};
}

inline IpAddress ipv6(std::uint8_t last) {
  return {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
}

inline Bytes pattern(std::size_t bytes, std::size_t seed = 1) {
  Bytes out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(i * 7 + i / 256 + seed);
  return out;
}

inline Bytes joined(View view) {
  Bytes out;
  for (const Span& span : view) out.insert(out.end(), span.data, span.data + span.bytes);
  return out;
}

inline PortOptions small(const std::string& device) {
  PortOptions options{.device = device, .addresses = {ipv4(1), ipv6(1)}};
  options.receive_entries = 64;
  options.transmit_entries = 64;
  options.held_buffers = 64;
  return options;
}

inline std::unique_ptr<Port> open(const PortOptions& options) {
  if (!start_test_eal()) return nullptr;
  auto port = Port::open(options);
  EXPECT_TRUE(port.ok()) << port.error().message;
  return port.ok() ? std::move(port).value() : nullptr;
}

inline Packet packet_to(const MacAddress& mac, Opcode opcode = Opcode::kSendOnly) {
  Packet packet;
  packet.route = {.source_mac = {2, 9, 0, 0, 0, 2},
                  .target_mac = mac,
                  .vlan = 0,
                  .source = ipv4(2),
                  .target = ipv4(1),
                  .source_port = 0xc123,
                  .traffic_class = kEcnCapable};
  packet.opcode = opcode;
  packet.asks_for_ack = true;
  packet.pair = 0x2bcdef;
  packet.psn = Psn(0x123456);
  packet.reth = {0x1122334455667788, 0x99aabbcc, 0xddeeff};
  packet.aeth = {0x1f, 0x654321};
  packet.immediate = 0xcafe0001;
  return packet;
}

// Receives until `count` packets are there, with a limit for devices that never deliver them.
inline std::size_t receive(PortQueue& queue, std::span<Arrival> out) {
  std::size_t count = 0;
  const Nanos end = monotonic_now() + 5 * kSecond;
  while (count < out.size() && monotonic_now() < end) {
    count += queue.receive(out.subspan(count), monotonic_now());
  }
  return count;
}

// 10.9.0.2 asks everybody for the MAC address of 10.9.0.1.
inline Bytes arp_request() {
  constexpr std::array<unsigned char, 42> kBytes = {
      0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2,  9, 0, 0, 0, 2, 8, 6,  // broadcast, ARP
      0,    1,    8,    0,    6,    4,    0,  1,                    // a request, IPv4 over Ethernet
      2,    9,    0,    0,    0,    2,    10, 9, 0, 2, 0, 0, 0, 0, 0, 0, 10, 9, 0, 1};
  Bytes request(kBytes.size());
  std::memcpy(request.data(), kBytes.data(), kBytes.size());
  return request;
}

inline std::uint32_t payload_for(Opcode opcode, std::uint32_t bytes) {
  const OpcodeFacts facts = facts_of(opcode);
  if (opcode == Opcode::kCongestion) return 16;
  const bool is_bare = facts.kind == Kind::kAcknowledge || facts.kind == Kind::kReadRequest;
  return is_bare ? 0 : bytes;
}

inline void expect_same(const Packet& sent, const Arrival& got) {
  const OpcodeFacts facts = facts_of(sent.opcode);
  EXPECT_EQ(got.packet.opcode, sent.opcode);
  EXPECT_EQ(got.packet.route, sent.route);
  EXPECT_EQ(got.packet.pair, sent.pair);
  EXPECT_EQ(got.packet.psn, sent.psn);
  EXPECT_EQ(got.packet.reth, facts.has_reth ? sent.reth : Reth{});
  EXPECT_EQ(got.packet.aeth, facts.has_aeth ? sent.aeth : Aeth{});
  EXPECT_EQ(got.packet.immediate, facts.has_immediate ? sent.immediate : 0);
  EXPECT_EQ(got.packet.payload, sent.payload);
}

inline void send_all_opcodes(PortQueue& from, PortQueue& to, const MacAddress& mac) {
  std::array<Arrival, 1> out;
  for (int number = 0; number < 256; ++number) {
    const auto opcode = static_cast<Opcode>(number);
    if (!facts_of(opcode).known) continue;
    for (const bool v6 : {false, true}) {
      for (const std::uint32_t bytes : {64U, 1024U, 4096U}) {
        const Bytes payload = pattern(payload_for(opcode, bytes), bytes);
        Packet packet = packet_to(mac, opcode);
        if (v6) packet.route.source = ipv6(2);
        if (v6) packet.route.target = ipv6(1);
        ASSERT_GE(test_memory().size(), payload.size());
        std::copy(payload.begin(), payload.end(), test_memory().begin());
        const Span span{test_memory().data(), payload.size()};
        ASSERT_TRUE(from.send(packet, {&span, 1}));
        // memif's server sends into buffers that its client provides when it receives.
        while (from.flush() > 0) static_cast<void>(to.receive(std::span(out).first(0), 0));
        ASSERT_EQ(receive(to, out), 1U) << number << ", " << bytes;
        expect_same(packet, out[0]);
        EXPECT_EQ(joined(out[0].payload()), payload);
        out[0] = Arrival{};
      }
    }
  }
  EXPECT_EQ(to.counters().wrong_icrc, 0U);
}

}  // namespace tally::transport::roce
