// RoCEv2 packets: Ethernet, IPv4 or IPv6, UDP, and InfiniBand's transport headers. read_packet()
// takes only packets that are valid by themselves; whether a packet fits its connection is for the
// connection to say.
//
// Sources: InfiniBand Architecture Specification 1.4, volume 1: base transport header (BTH) 9.2,
// RETH 9.3.3, AETH 9.3.5; annex A17 (RoCEv2); RFC 791, RFC 8200, RFC 768.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/transport/roce/wire/opcode.h"
#include "dataplane/transport/roce/wire/psn.h"

namespace tally::transport::roce {

inline constexpr std::uint16_t kUdpPort = 4791;
inline constexpr std::size_t kIcrcBytes = 4;
// Ethernet with a VLAN tag, IPv6, UDP, BTH, RETH, immediate data.
inline constexpr std::size_t kMostHeaders = 14 + 4 + 40 + 8 + 12 + 16 + 4;
// A receiver may need so many bytes of a frame in one piece to read it.
inline constexpr std::size_t kBytesToRead = kMostHeaders + 16;  // the body of a congestion packet

using MacAddress = std::array<std::uint8_t, 6>;
// An IPv4 address is ::ffff:a.b.c.d, as in a GID.
using IpAddress = std::array<std::uint8_t, 16>;

bool is_ipv4(const IpAddress& address);

// As ==, but without a call of memcmp(), because each packet asks.
inline bool is_same(const IpAddress& one, const IpAddress& other) {
  struct Words {
    std::uint64_t first, second;
    bool operator==(const Words&) const = default;
  };
  return std::bit_cast<Words>(one) == std::bit_cast<Words>(other);
}
inline bool is_same(const MacAddress& one, const MacAddress& other) {
  struct Words {
    std::uint16_t first, second, third;
    bool operator==(const Words&) const = default;
  };
  return std::bit_cast<Words>(one) == std::bit_cast<Words>(other);
}

// The addresses of a packet. In a received packet, `source` is the peer's.
struct Route {
  MacAddress source_mac{};
  MacAddress target_mac{};
  std::uint16_t vlan = 0;  // 1 to 4094; 0: no tag
  IpAddress source{};
  IpAddress target{};
  std::uint16_t source_port = 0;  // of UDP: spreads connections over the paths of a network
  std::uint8_t traffic_class = 0;

  bool operator==(const Route&) const = default;
};

// The explicit congestion notification bits of Route::traffic_class (RFC 3168).
inline constexpr std::uint8_t kEcnMask = 3;
inline constexpr std::uint8_t kEcnCapable = 2;
inline constexpr std::uint8_t kEcnCongested = 3;

// RDMA extended transport header: the memory that a request names.
struct Reth {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint32_t bytes = 0;

  bool operator==(const Reth&) const = default;
};

// ACK extended transport header.
struct Aeth {
  std::uint8_t syndrome = 0;
  std::uint32_t messages = 0;  // 24 bits: requests that the responder has completed (MSN)

  bool operator==(const Aeth&) const = default;
};

struct Packet {
  Route route{};
  Opcode opcode{};
  bool solicited = false;
  bool asks_for_ack = false;
  std::uint32_t pair = 0;  // 24 bits: the queue pair that gets it
  Psn psn{};
  Reth reth{};  // of opcodes that have one, like the next two
  Aeth aeth{};
  std::uint32_t immediate = 0;
  std::uint32_t payload = 0;  // bytes, without the padding
  // Set by read_packet(): where things lie in the frame.
  std::uint16_t network = 0;  // the IP header
  std::uint16_t base = 0;     // the BTH
  std::uint16_t headers = 0;  // bytes before the payload

  // Bytes that make the payload a multiple of four.
  std::uint32_t padding() const { return (4 - payload % 4) % 4; }
  std::size_t icrc_at() const { return headers + payload + padding(); }
  bool is_congested() const { return (route.traffic_class & kEcnMask) == kEcnCongested; }
};

enum class Unreadable : std::uint8_t {
  kNo,         // the packet is valid
  kNotRoce,    // another protocol, or another UDP port
  kFragment,   // a piece of an IP packet
  kLength,     // the lengths of its headers do not fit together, or it is cut off
  kVersion,    // another version of the transport header
  kOpcode,     // unreliable, atomic or unknown operations
  kPartition,  // a partition key other than the default one
};
const char* to_text(Unreadable reason);

// Reads the headers of a frame. begin: the first bytes of the frame, kBytesToRead or all of them.
// frame_bytes: of the whole frame, without the Ethernet checksum; it may have padding at its end.
Unreadable read_packet(std::span<const std::byte> begin, std::size_t frame_bytes, Packet& packet);

// Writes the headers of a packet with this payload to `out`, and sets network, base and headers.
// The payload, its padding and the ICRC follow them. Both addresses must be IPv4, or both IPv6.
// Precondition: `out` has kMostHeaders bytes.
void write_headers(Packet& packet, std::span<std::byte> out);

}  // namespace tally::transport::roce
