#include "dataplane/transport/roce/wire/packet.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "dataplane/transport/roce/wire/icrc.h"

namespace tally::transport::roce {
namespace {

using Bytes = std::vector<std::byte>;

const Crc32& crc32() {
  const auto opened = Crc32::open();
  if (!opened) throw std::runtime_error(opened.error().message);
  return **opened;
}

struct Captured {
  std::string name;
  std::uint32_t icrc = 0;
  Bytes frame;
};

// tests/roce/frames.txt.
std::vector<Captured> captured() {
  const char* path = std::getenv("TALLY_ROCE_FRAMES");
  std::ifstream file(path != nullptr ? path : "tests/roce/frames.txt");
  std::vector<Captured> all;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    Captured one;
    std::string icrc;
    std::string hex;
    std::istringstream(line) >> one.name >> icrc >> hex;
    one.icrc = static_cast<std::uint32_t>(std::stoul(icrc.substr(5), nullptr, 16));
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
      one.frame.push_back(static_cast<std::byte>(std::stoul(hex.substr(i, 2), nullptr, 16)));
    }
    all.push_back(std::move(one));
  }
  return all;
}

Bytes frame_of(const std::string& name) {
  for (const Captured& one : captured()) {
    if (one.name == name) return one.frame;
  }
  throw std::runtime_error("no captured frame " + name);
}

Unreadable read(const Bytes& frame, Packet& packet) {
  return read_packet(std::span(frame).first(std::min(frame.size(), kBytesToRead)), frame.size(),
                     packet);
}

// The ICRC that a whole frame should have.
std::uint32_t icrc_of(const Packet& packet, std::span<const std::byte> frame) {
  Icrc icrc(crc32(), packet, frame.first(packet.headers));
  icrc.add(frame.subspan(packet.headers, packet.icrc_at() - packet.headers));
  return icrc.value();
}

Packet an_only(Opcode opcode, std::uint32_t payload) {
  Packet packet;
  packet.route = {.source_mac = {2, 9, 0, 0, 0, 1},
                  .target_mac = {2, 9, 0, 0, 0, 2},
                  .vlan = 0,
                  .source = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 9, 0, 1},
                  .target = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 9, 0, 2},
                  .source_port = 0xc123,
                  .traffic_class = kEcnCapable};
  packet.opcode = opcode;
  packet.solicited = true;
  packet.asks_for_ack = true;
  packet.pair = 0xabcdef;
  packet.psn = Psn(0x123456);
  packet.reth = {0x1122334455667788, 0x99aabbcc, 0xddeeff};
  packet.aeth = {0x1f, 0x654321};
  packet.immediate = 0xcafe0001;
  packet.payload = payload;
  return packet;
}

Bytes written(Packet& packet) {
  Bytes frame(kMostHeaders);
  write_headers(packet, frame);
  frame.resize(packet.icrc_at() + kIcrcBytes);
  for (std::size_t i = packet.headers; i < packet.headers + packet.payload; ++i) {
    frame[i] = static_cast<std::byte>(i * 5);
  }
  return frame;
}

TEST(RoceFrames, CapturedFramesHaveTheirIcrc) {
  ASSERT_EQ(captured().size(), 24U);
  for (const Captured& one : captured()) {
    Packet packet;
    const Unreadable reason = read(one.frame, packet);
    ASSERT_TRUE(reason == Unreadable::kNo || reason == Unreadable::kOpcode) << one.name;
    const std::size_t end = one.frame.size() - kIcrcBytes;
    const std::span frame(one.frame);
    const std::size_t headers = packet.base + std::size_t{12};
    Icrc icrc(crc32(), packet, frame.first(headers));
    for (std::size_t at = headers; at < end; at += 100) {
      icrc.add(frame.subspan(at, std::min<std::size_t>(100, end - at)));
    }
    EXPECT_EQ(icrc.value(), one.icrc) << one.name;
  }
}

TEST(RoceFrames, ReadsAWriteWithImmediateData) {
  Packet packet;
  ASSERT_EQ(read(frame_of("rc_write_only_imm"), packet), Unreadable::kNo);
  EXPECT_EQ(packet.opcode, Opcode::kWriteOnlyImmediate);
  EXPECT_EQ(packet.pair, 0x11U);
  EXPECT_EQ(packet.psn.number(), 0x107U);
  EXPECT_EQ(packet.reth, (Reth{0x1122334455667788, 0xabcdef01, 6}));
  EXPECT_EQ(packet.immediate, 0xcafe0001U);
  EXPECT_EQ(packet.payload, 6U);
  EXPECT_EQ(packet.padding(), 2U);
  EXPECT_TRUE(packet.asks_for_ack);
  EXPECT_EQ(packet.route.source_port, 0xc121);
  EXPECT_EQ(packet.route.source[15], 1);
  EXPECT_EQ(packet.route.target[15], 2);
}

TEST(RoceFrames, ReadsWhatAResponderSends) {
  Packet packet;
  ASSERT_EQ(read(frame_of("rc_read_resp_first"), packet), Unreadable::kNo);
  EXPECT_EQ(packet.opcode, Opcode::kReadFirst);
  EXPECT_EQ(packet.payload, 1024U);
  EXPECT_EQ(packet.aeth, (Aeth{0x1f, 2}));
  ASSERT_EQ(read(frame_of("rc_nak_psn_sequence"), packet), Unreadable::kNo);
  EXPECT_EQ(packet.opcode, Opcode::kAcknowledge);
  EXPECT_EQ(packet.aeth.syndrome, 0x60);
  ASSERT_EQ(read(frame_of("cnp_of_a_connectx_4"), packet), Unreadable::kNo);
  EXPECT_EQ(packet.opcode, Opcode::kCongestion);
}

TEST(RoceFrames, WritesWhatItReads) {
  for (int number = 0; number < 256; ++number) {
    const auto opcode = static_cast<Opcode>(number);
    const OpcodeFacts facts = facts_of(opcode);
    if (!facts.known) continue;
    for (const bool v6 : {false, true}) {
      for (const std::uint16_t vlan : {0, 5}) {
        Packet packet = an_only(opcode, facts.ends ? 7 : 256);
        const bool is_bare = facts.kind == Kind::kAcknowledge || facts.kind == Kind::kReadRequest;
        if (is_bare) packet.payload = 0;
        if (opcode == Opcode::kCongestion) packet.payload = 16;
        packet.route.vlan = vlan;
        if (v6) packet.route.source[0] = packet.route.target[0] = 0xfd;
        const Bytes frame = written(packet);
        Packet again;
        ASSERT_EQ(read(frame, again), Unreadable::kNo) << number;
        EXPECT_EQ(again.route, packet.route);
        EXPECT_EQ(again.opcode, opcode);
        EXPECT_EQ(again.pair, packet.pair);
        EXPECT_EQ(again.psn, packet.psn);
        EXPECT_TRUE(again.asks_for_ack && again.solicited);
        EXPECT_EQ(again.payload, packet.payload);
        EXPECT_EQ(again.headers, packet.headers);
        EXPECT_EQ(again.reth, facts.has_reth ? packet.reth : Reth{});
        EXPECT_EQ(again.aeth, facts.has_aeth ? packet.aeth : Aeth{});
        EXPECT_EQ(again.immediate, facts.has_immediate ? packet.immediate : 0);
      }
    }
  }
}

TEST(RoceFrames, RoutersMayChangeWhatTheIcrcDoesNotCover) {
  for (const bool v6 : {false, true}) {
    Packet packet = an_only(Opcode::kSendOnly, 64);
    if (v6) packet.route.source[0] = packet.route.target[0] = 0xfd;
    Bytes frame = written(packet);
    const std::uint32_t before = icrc_of(packet, frame);
    frame[packet.network + (v6 ? 7U : 8U)] = std::byte{3};  // hops
    frame[packet.network + 1U] ^= std::byte{3};             // congestion (IPv4), flow label (IPv6)
    frame[packet.base + 4U] = std::byte{0x40};              // BECN
    EXPECT_EQ(icrc_of(packet, frame), before);
    frame[packet.base + 7U] ^= std::byte{1};  // the queue pair
    EXPECT_NE(icrc_of(packet, frame), before);
  }
}

// Annex A17.9.3: a notification is a packet with BECN.
TEST(RoceFrames, NotificationsOfCongestionAloneHaveBecn) {
  Packet packet = an_only(Opcode::kCongestion, 16);
  EXPECT_EQ(written(packet)[packet.base + 4U], std::byte{0x40});
  Packet other = an_only(Opcode::kSendOnly, 16);
  EXPECT_EQ(written(other)[other.base + 4U], std::byte{0});
}

TEST(RoceFrames, EthernetPaddingIsNoPartOfAPacket) {
  Packet packet = an_only(Opcode::kAcknowledge, 0);
  Bytes frame = written(packet);
  frame.resize(frame.size() + 10);
  ASSERT_EQ(read(frame, packet), Unreadable::kNo);
  EXPECT_EQ(packet.payload, 0U);
}

TEST(RoceFrames, RefusesWhatIsNotValid) {
  Packet packet = an_only(Opcode::kSendOnly, 5);
  const Bytes good = written(packet);
  const std::size_t network = packet.network;
  const std::size_t base = packet.base;
  struct Damage {
    std::size_t at;
    unsigned value;
    Unreadable expected;
  };
  for (const Damage& damage : {
           Damage{12, 0x09, Unreadable::kNotRoce},            // Ethernet type
           Damage{network, 0x46, Unreadable::kNotRoce},       // options
           Damage{network + 9, 6, Unreadable::kNotRoce},      // TCP
           Damage{network + 6, 0x20, Unreadable::kFragment},  // more fragments
           Damage{network + 7, 1, Unreadable::kFragment},     // not the first
           Damage{network + 3, 10, Unreadable::kLength},      // shorter than its header
           Damage{network + 2, 9, Unreadable::kLength},       // longer than the frame
           Damage{base - 6, 0, Unreadable::kNotRoce},         // UDP port
           Damage{base - 3, 200, Unreadable::kLength},        // UDP length
           Damage{base + 1, 0x71, Unreadable::kVersion},
           Damage{base, 0x13, Unreadable::kOpcode},  // an atomic operation
           Damage{base, 0x00, Unreadable::kLength},  // a first packet with padding
           Damage{base, 0x11, Unreadable::kLength},  // an acknowledgement with payload
           Damage{base, 0x0c, Unreadable::kLength},  // longer than it is
           Damage{base + 3, 1, Unreadable::kPartition},
       }) {
    Bytes frame = good;
    frame[damage.at] = static_cast<std::byte>(damage.value);
    EXPECT_EQ(read(frame, packet), damage.expected)
        << "byte " << damage.at << " = " << damage.value << ": " << to_text(damage.expected);
  }
  for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
    EXPECT_NE(read({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(bytes)}, packet),
              Unreadable::kNo);
  }
}

TEST(RocePsn, GoesAround) {
  EXPECT_EQ((Psn(0xffffff) + 1).number(), 0U);
  EXPECT_EQ(Psn(0).after(Psn(0xffffff)), 1);
  EXPECT_EQ(Psn(0xffffff).after(Psn(0)), -1);
  EXPECT_EQ(Psn(0x800000).after(Psn(0)), -(1 << 23));
  EXPECT_EQ(Psn(0x7fffff).after(Psn(0)), (1 << 23) - 1);
  EXPECT_EQ((Psn(3) - 5).number(), 0xfffffeU);
}

}  // namespace
}  // namespace tally::transport::roce
