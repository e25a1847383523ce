// Layout of the frames that AddressResolver reads and writes.
// Sources: RFC 826, RFC 8200 (section 8.1), RFC 792, RFC 4443, RFC 4861 (section 4), RFC 4291
// (section 2.7.1), RFC 2464 (section 7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "dataplane/transport/roce/wire/ip.h"
#include "dataplane/transport/roce/wire/network_order.h"
#include "dataplane/transport/roce/wire/packet.h"

namespace tally::transport::roce::address_frames {

inline constexpr std::uint16_t kTypeArp = 0x0806;

inline constexpr std::size_t kArp = 28;
inline constexpr std::uint64_t kArpEthernetIpv4 = 0x0001'0800'0604;  // types and lengths
inline constexpr std::uint16_t kArpRequest = 1;
inline constexpr std::uint16_t kArpReply = 2;

inline constexpr unsigned kIpv4PrefixBits = 96;
inline constexpr std::uint8_t kDiscoveryHops = 255;  // proves that no router has passed it on
inline constexpr std::uint8_t kProtocolIcmp = 1;
inline constexpr std::uint8_t kProtocolIcmpv6 = 58;

inline constexpr std::uint8_t kEchoHops = 64;
inline constexpr std::size_t kEchoHeader = 8;
inline constexpr std::uint32_t kEchoRequestIpv4 = 8;
inline constexpr std::uint32_t kEchoReplyIpv4 = 0;
inline constexpr std::uint32_t kEchoRequestIpv6 = 128;
inline constexpr std::uint32_t kEchoReplyIpv6 = 129;

inline constexpr std::uint32_t kSolicitation = 135;
inline constexpr std::uint32_t kAdvertisement = 136;
inline constexpr std::size_t kDiscovery = 24;  // before the options
inline constexpr std::size_t kDiscoveryTarget = 8;
inline constexpr std::size_t kMacOption = 8;
inline constexpr std::uint32_t kOptionSource = 1;
inline constexpr std::uint32_t kOptionTarget = 2;
inline constexpr std::uint32_t kFlagSolicited = 0x4000'0000;
inline constexpr std::uint32_t kFlagOverride = 0x2000'0000;

inline constexpr MacAddress kBroadcast = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
inline constexpr IpAddress kAllNodes = {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

inline bool is_group(const MacAddress& mac) {
  return (mac[0] & 1) != 0;
}

// Whether one host can have this MAC address.
inline bool is_station(const MacAddress& mac) {
  return !is_group(mac) && mac != MacAddress{};
}

// Whether one host can have this address.
inline bool is_unicast(const IpAddress& address) {
  if (is_ipv4(address)) return address[12] > 0 && address[12] != 127 && address[12] < 224;
  return address != IpAddress{} && address[0] != 0xff;
}

inline bool is_link_local(const IpAddress& address) {
  return address[0] == 0xfe && (address[1] & 0xc0) == 0x80;
}

inline bool has_prefix(const IpAddress& address, const IpAddress& prefix, unsigned bits) {
  for (unsigned i = 0; i < bits && i < 8 * address.size(); ++i) {
    if (((address[i / 8] ^ prefix[i / 8]) & (0x80U >> i % 8)) != 0) return false;
  }
  return true;
}

// The group that a host with this address belongs to.
inline IpAddress solicited_node(const IpAddress& address) {
  return {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, address[13], address[14], address[15]};
}

inline MacAddress multicast_mac(const IpAddress& group) {
  return {0x33, 0x33, group[12], group[13], group[14], group[15]};
}

// The sum of a message and of the pseudo header before it (RFC 8200, section 8.1).
inline std::uint64_t icmpv6_sum(const IpAddress& source, const IpAddress& target,
                                std::span<const std::byte> message) {
  const std::uint64_t begin = network_order::sum_of(
      std::as_bytes(std::span(target)),
      network_order::sum_of(std::as_bytes(std::span(source)), message.size() + kProtocolIcmpv6));
  return network_order::sum_of(message, begin);
}

// Finds the MAC address in the options of a message of neighbour discovery. Returns false when the
// options are malformed.
inline bool read_option(std::span<const std::byte> options, std::uint32_t type, MacAddress& mac,
                        bool& is_found) {
  constexpr std::size_t kUnit = 8;  // lengths count in these
  while (!options.empty()) {
    if (options.size() < kUnit) return false;
    const std::size_t bytes = network_order::get(options, 1, 1) * kUnit;
    if (bytes == 0 || bytes > options.size()) return false;
    if (network_order::get(options, 0, 1) == type) {
      std::memcpy(mac.data(), options.data() + 2, mac.size());
      if (bytes != kMacOption || !is_station(mac)) return false;
      is_found = true;
    }
    options = options.subspan(bytes);
  }
  return true;
}

}  // namespace tally::transport::roce::address_frames
