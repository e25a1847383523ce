#include "dataplane/transport/roce/wire/packet.h"

#include <algorithm>
#include <cstring>

#include "dataplane/transport/roce/wire/ip.h"
#include "dataplane/transport/roce/wire/network_order.h"

namespace tally::transport::roce {
namespace {

using namespace ip;
using network_order::get;
using network_order::put;

constexpr std::size_t kUdp = 8;
constexpr std::size_t kBth = 12;
constexpr std::size_t kReth = 16;
constexpr std::size_t kAeth = 4;
constexpr std::size_t kImmediate = 4;
constexpr std::size_t kCongestionBody = 16;  // reserved
constexpr std::uint8_t kProtocolUdp = 17;
constexpr std::uint32_t kAsksForAck = 0x80000000;  // in the last four bytes of the BTH
constexpr std::uint16_t kDefaultPartition = 0xffff;
constexpr IpAddress kIpv4Prefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

std::size_t extension_bytes(const OpcodeFacts& facts) {
  return (facts.has_reth ? kReth : 0) + (facts.has_aeth ? kAeth : 0) +
         (facts.has_immediate ? kImmediate : 0);
}

// Goes through a frame from its begin.
class Reader {
 public:
  Reader(std::span<const std::byte> begin, std::size_t frame_bytes, Packet& packet)
      : begin_(begin), left_(frame_bytes), packet_(packet) {}

  Unreadable read() {
    Unreadable wrong = ethernet();
    if (wrong == Unreadable::kNo) wrong = network();
    if (wrong == Unreadable::kNo) wrong = udp();
    if (wrong == Unreadable::kNo) wrong = base();
    if (wrong == Unreadable::kNo) wrong = extensions();
    return wrong;
  }

 private:
  bool has(std::size_t bytes) const { return left_ >= bytes && begin_.size() >= at_ + bytes; }
  std::uint64_t field(std::size_t at, std::size_t bytes) const {
    return get(begin_, at_ + at, bytes);
  }
  template <typename Array>
  void copy(Array& to, std::size_t at) const {
    std::memcpy(to.data(), begin_.data() + at_ + at, to.size());
  }
  void skip(std::size_t bytes) {
    at_ += bytes;
    left_ -= bytes;
  }

  Unreadable ethernet() {
    if (!has(kMacs + kEtherType)) return Unreadable::kNotRoce;
    copy(packet_.route.target_mac, 0);
    copy(packet_.route.source_mac, sizeof(MacAddress));
    skip(kMacs);
    packet_.route.vlan = 0;
    if (field(0, 2) == kTypeVlan) {
      if (!has(kTag + kEtherType)) return Unreadable::kNotRoce;
      packet_.route.vlan = field(2, 2) & 0xfff;
      skip(kTag);
    }
    type_ = static_cast<std::uint16_t>(field(0, 2));
    skip(kEtherType);
    return Unreadable::kNo;
  }

  Unreadable network() {
    packet_.network = static_cast<std::uint16_t>(at_);
    if (type_ == kTypeIpv4) return ipv4();
    if (type_ == kTypeIpv6) return ipv6();
    return Unreadable::kNotRoce;
  }

  Unreadable ipv4() {
    if (!has(kIpv4) || field(9, 1) != kProtocolUdp) return Unreadable::kNotRoce;
    if (field(0, 1) != kIpv4Begin) return Unreadable::kNotRoce;
    if ((field(6, 2) & kFragment) != 0) return Unreadable::kFragment;
    const std::size_t bytes = field(2, 2);
    if (bytes < kIpv4 || bytes > left_) return Unreadable::kLength;
    left_ = bytes;
    packet_.route.traffic_class = static_cast<std::uint8_t>(field(1, 1));
    packet_.route.source = ipv4_at(begin_, at_ + 12);
    packet_.route.target = ipv4_at(begin_, at_ + 16);
    skip(kIpv4);
    return Unreadable::kNo;
  }

  Unreadable ipv6() {
    if (!has(kIpv6) || field(0, 1) >> 4 != 6 || field(6, 1) != kProtocolUdp) {
      return Unreadable::kNotRoce;
    }
    const std::size_t bytes = kIpv6 + field(4, 2);
    if (bytes > left_) return Unreadable::kLength;
    left_ = bytes;
    packet_.route.traffic_class = static_cast<std::uint8_t>(field(0, 2) >> 4);
    copy(packet_.route.source, 8);
    copy(packet_.route.target, 24);
    skip(kIpv6);
    return Unreadable::kNo;
  }

  Unreadable udp() {
    if (!has(kUdp) || field(2, 2) != kUdpPort) return Unreadable::kNotRoce;
    if (field(4, 2) != left_) return Unreadable::kLength;
    packet_.route.source_port = static_cast<std::uint16_t>(field(0, 2));
    skip(kUdp);
    return Unreadable::kNo;
  }

  Unreadable base() {
    packet_.base = static_cast<std::uint16_t>(at_);
    if (!has(kBth)) return Unreadable::kLength;
    const auto flags = static_cast<std::uint8_t>(field(1, 1));
    if ((flags & 0x0f) != 0) return Unreadable::kVersion;
    packet_.opcode = static_cast<Opcode>(field(0, 1));
    packet_.solicited = (flags & 0x80) != 0;
    padding_ = flags >> 4 & 3;
    // The high bit tells full members of a partition from others.
    if ((field(2, 2) | 0x8000) != kDefaultPartition) return Unreadable::kPartition;
    packet_.pair = static_cast<std::uint32_t>(field(4, 4) & 0xffffff);
    const auto last = static_cast<std::uint32_t>(field(8, 4));
    packet_.asks_for_ack = (last & kAsksForAck) != 0;
    packet_.psn = Psn(last);
    skip(kBth);
    return facts_of(packet_.opcode).known ? Unreadable::kNo : Unreadable::kOpcode;
  }

  Unreadable extensions() {
    const OpcodeFacts& facts = facts_of(packet_.opcode);
    if (!has(extension_bytes(facts))) return Unreadable::kLength;
    if (facts.has_reth) {
      packet_.reth = {field(0, 8), static_cast<std::uint32_t>(field(8, 4)),
                      static_cast<std::uint32_t>(field(12, 4))};
      skip(kReth);
    }
    if (facts.has_aeth) {
      packet_.aeth = {static_cast<std::uint8_t>(field(0, 1)),
                      static_cast<std::uint32_t>(field(1, 3))};
      skip(kAeth);
    }
    if (facts.has_immediate) {
      packet_.immediate = static_cast<std::uint32_t>(field(0, 4));
      skip(kImmediate);
    }
    packet_.headers = static_cast<std::uint16_t>(at_);
    return payload(facts);
  }

  Unreadable payload(const OpcodeFacts& facts) {
    if (left_ < kIcrcBytes + padding_ || left_ % 4 != 0) return Unreadable::kLength;
    packet_.payload = static_cast<std::uint32_t>(left_ - kIcrcBytes - padding_);
    bool fits = true;
    if (packet_.opcode == Opcode::kCongestion) {
      fits = packet_.payload == kCongestionBody;
    } else if (facts.kind == Kind::kAcknowledge || facts.kind == Kind::kReadRequest) {
      fits = packet_.payload == 0;
    } else if (!facts.ends) {
      fits = packet_.payload > 0 && padding_ == 0;  // a whole packet of its connection
    }
    return fits ? Unreadable::kNo : Unreadable::kLength;
  }

  std::span<const std::byte> begin_;
  std::size_t at_ = 0;
  std::size_t left_;  // of the frame, and then of the protocol that is being read
  std::uint16_t type_ = 0;
  std::uint32_t padding_ = 0;
  Packet& packet_;
};

void write_base(const Packet& packet, std::span<std::byte> out) {
  constexpr std::uint8_t kMigrated = 0x40;   // as hardware sends it
  constexpr std::uint8_t kBackwards = 0x40;  // BECN, of notifications (annex A17.9.3)
  put(out, 0, 1, static_cast<std::uint8_t>(packet.opcode));
  put(out, 1, 1, (packet.solicited ? 0x80 : 0) | kMigrated | packet.padding() << 4);
  put(out, 2, 2, kDefaultPartition);
  put(out, 4, 1, packet.opcode == Opcode::kCongestion ? kBackwards : 0);
  put(out, 5, 3, packet.pair);
  put(out, 8, 4, (packet.asks_for_ack ? kAsksForAck : 0) | packet.psn.number());
}

}  // namespace

bool is_ipv4(const IpAddress& address) {
  return std::equal(kIpv4Prefix.begin(), kIpv4Prefix.begin() + 12, address.begin());
}

const char* to_text(Unreadable reason) {
  switch (reason) {
    case Unreadable::kNo:
      return "readable";
    case Unreadable::kNotRoce:
      return "not RoCE";
    case Unreadable::kFragment:
      return "a fragment";
    case Unreadable::kLength:
      return "wrong lengths";
    case Unreadable::kVersion:
      return "another version";
    case Unreadable::kOpcode:
      return "unknown operation";
    case Unreadable::kPartition:
      return "another partition";
  }
  return "";
}

Unreadable read_packet(std::span<const std::byte> begin, std::size_t frame_bytes, Packet& packet) {
  return Reader(begin, frame_bytes, packet).read();
}

void write_headers(Packet& packet, std::span<std::byte> out) {
  const OpcodeFacts& facts = facts_of(packet.opcode);
  const Route& route = packet.route;
  std::size_t at = kMacs;
  std::memcpy(out.data(), route.target_mac.data(), sizeof(MacAddress));
  std::memcpy(out.data() + sizeof(MacAddress), route.source_mac.data(), sizeof(MacAddress));
  if (route.vlan != 0) {
    put(out, at, 2, kTypeVlan);
    put(out, at + 2, 2, route.vlan);
    at += kTag;
  }
  put(out, at, 2, is_ipv4(route.source) ? kTypeIpv4 : kTypeIpv6);
  at += kEtherType;
  packet.network = static_cast<std::uint16_t>(at);
  const std::size_t udp_bytes =
      kUdp + kBth + extension_bytes(facts) + packet.payload + packet.padding() + kIcrcBytes;
  at += ip::write({.source = route.source,
                   .target = route.target,
                   .protocol = kProtocolUdp,
                   .traffic_class = route.traffic_class},
                  udp_bytes, out.subspan(at));
  put(out, at, 2, route.source_port);
  put(out, at + 2, 2, kUdpPort);
  put(out, at + 4, 2, udp_bytes);
  put(out, at + 6, 2, 0);  // the ICRC protects the packet; annex A17 permits it with IPv6 too
  at += kUdp;
  packet.base = static_cast<std::uint16_t>(at);
  write_base(packet, out.subspan(at));
  at += kBth;
  if (facts.has_reth) {
    put(out, at, 8, packet.reth.address);
    put(out, at + 8, 4, packet.reth.key);
    put(out, at + 12, 4, packet.reth.bytes);
    at += kReth;
  }
  if (facts.has_aeth) {
    put(out, at, 4, std::uint64_t{packet.aeth.syndrome} << 24 | packet.aeth.messages);
    at += kAeth;
  }
  if (facts.has_immediate) {
    put(out, at, 4, packet.immediate);
    at += kImmediate;
  }
  packet.headers = static_cast<std::uint16_t>(at);
}

}  // namespace tally::transport::roce
