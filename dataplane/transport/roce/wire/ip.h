// Ethernet and IP below RoCE and below what finds its addresses. Sources: RFC 791, RFC 8200, IEEE
// 802.1Q (the VLAN tag).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "dataplane/transport/roce/wire/network_order.h"
#include "dataplane/transport/roce/wire/packet.h"

namespace tally::transport::roce::ip {

inline constexpr std::size_t kMacs = 12;
inline constexpr std::size_t kTag = 4;
inline constexpr std::size_t kEtherType = 2;
inline constexpr std::uint16_t kTypeVlan = 0x8100;
inline constexpr std::uint16_t kTypeIpv4 = 0x0800;
inline constexpr std::uint16_t kTypeIpv6 = 0x86dd;

inline constexpr std::size_t kIpv4 = 20;
inline constexpr std::size_t kIpv6 = 40;
inline constexpr std::uint64_t kIpv4Begin = 0x45;   // version, and a header without options
inline constexpr std::uint16_t kFragment = 0x3fff;  // more fragments, and the offset
inline constexpr std::uint16_t kDoNotFragment = 0x4000;

struct Header {
  IpAddress source{};
  IpAddress target{};
  std::uint8_t protocol = 0;
  std::uint8_t hops = 64;
  std::uint8_t traffic_class = 0;
  bool may_be_fragmented = false;  // IPv4
};

// The address of four bytes.
inline IpAddress ipv4_at(std::span<const std::byte> from, std::size_t at) {
  IpAddress address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  std::memcpy(&address[12], from.data() + at, 4);
  return address;
}

// Writes the header of an IPv4 or IPv6 packet with so many bytes after it, and returns its bytes.
inline std::size_t write(const Header& header, std::size_t bytes, std::span<std::byte> out) {
  using network_order::put;
  if (is_ipv4(header.source)) {
    put(out, 0, 2, kIpv4Begin << 8 | header.traffic_class);
    put(out, 2, 2, kIpv4 + bytes);
    put(out, 4, 4, header.may_be_fragmented ? 0 : kDoNotFragment);
    put(out, 8, 4, std::uint64_t{header.hops} << 24 | std::uint64_t{header.protocol} << 16);
    std::memcpy(out.data() + 12, &header.source[12], 4);
    std::memcpy(out.data() + 16, &header.target[12], 4);
    const auto sum = network_order::sum_of(out.first(kIpv4));
    put(out, 10, 2, network_order::checksum_of(sum));
    return kIpv4;
  }
  put(out, 0, 4, 6ULL << 28 | std::uint64_t{header.traffic_class} << 20);
  put(out, 4, 2, bytes);
  put(out, 6, 1, header.protocol);
  put(out, 7, 1, header.hops);
  std::memcpy(out.data() + 8, header.source.data(), header.source.size());
  std::memcpy(out.data() + 24, header.target.data(), header.target.size());
  return kIpv6;
}

}  // namespace tally::transport::roce::ip
