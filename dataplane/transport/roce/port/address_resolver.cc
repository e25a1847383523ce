#include "dataplane/transport/roce/port/address_resolver.h"

#include <algorithm>
#include <array>
#include <utility>

#include "dataplane/transport/roce/port/address_frames.h"
#include "dataplane/transport/roce/wire/network_order.h"

namespace tally::transport::roce {
namespace {

using namespace address_frames;
using namespace ip;
using network_order::checksum_of;
using network_order::get;
using network_order::put;
using network_order::sum_of;

// How many entries one frame of another host may inspect in order to displace one.
constexpr std::size_t kTriesToLearn = 16;

template <typename Array>
Array array_at(std::span<const std::byte> from, std::size_t at) {
  Array array{};
  std::memcpy(array.data(), from.data() + at, array.size());
  return array;
}

}  // namespace

AddressResolver::AddressResolver(ResolverOptions options) : options_(std::move(options)) {
  entries_.reserve(options_.most_entries);
}

std::size_t AddressResolver::receive(std::span<const std::byte> frame, Nanos now,
                                     std::span<std::byte> out) {
  const Answer bytes = answer(frame, now, out);
  if (!bytes) ++counters_.ignored;
  return bytes.value_or(0);
}

AddressResolver::Answer AddressResolver::answer(std::span<const std::byte> frame, Nanos now,
                                                std::span<std::byte> out) {
  if (frame.size() > kMostFrame) return std::nullopt;
  const auto in = read_ethernet(frame);
  if (!in) return std::nullopt;
  if (in->type == kTypeArp) return arp(*in, now, out);
  if (in->type == kTypeIpv4) return ipv4(*in, out);
  if (in->type == kTypeIpv6) return ipv6(*in, now, out);
  return std::nullopt;
}

std::optional<AddressResolver::Received> AddressResolver::read_ethernet(
    std::span<const std::byte> frame) const {
  std::size_t at = kMacs;
  if (frame.size() < at + kEtherType) return std::nullopt;
  Received in;
  in.target_mac = array_at<MacAddress>(frame, 0);
  in.source_mac = array_at<MacAddress>(frame, sizeof(MacAddress));
  std::uint64_t vlan = 0;
  if (get(frame, at, 2) == kTypeVlan) {
    if (frame.size() < at + kTag + kEtherType) return std::nullopt;
    vlan = get(frame, at + 2, 2) & 0xfff;
    at += kTag;
  }
  in.type = static_cast<std::uint16_t>(get(frame, at, 2));
  in.body = frame.subspan(at + kEtherType);
  const bool is_for_us = in.target_mac == options_.mac || is_group(in.target_mac);
  if (vlan != options_.vlan || !is_for_us || !is_station(in.source_mac)) return std::nullopt;
  return in;
}

// RFC 826, "Packet Reception", with the restrictions that the header of this class names.
AddressResolver::Answer AddressResolver::arp(const Received& in, Nanos now,
                                             std::span<std::byte> out) {
  if (in.body.size() < kArp || get(in.body, 0, 6) != kArpEthernetIpv4) return std::nullopt;
  const std::uint64_t operation = get(in.body, 6, 2);
  const auto sender_mac = array_at<MacAddress>(in.body, 8);
  const IpAddress sender = ipv4_at(in.body, 14);
  const IpAddress target = ipv4_at(in.body, 24);
  if (!is_station(sender_mac) || !is_local(target) || is_local(sender)) return std::nullopt;
  if (operation == kArpReply) {
    if (in.target_mac != options_.mac) return std::nullopt;
    confirm(sender, sender_mac, now);
    return 0;
  }
  if (operation != kArpRequest) return std::nullopt;
  // A host that checks whether an address is free has no address itself (RFC 5227).
  learn(sender, sender_mac, now);
  ++counters_.address_answers;
  return write_arp(true, sender_mac, target, sender, out);
}

AddressResolver::Answer AddressResolver::ipv4(Received in, std::span<std::byte> out) {
  if (in.body.size() < kIpv4 || get(in.body, 0, 1) != kIpv4Begin) return std::nullopt;
  const std::size_t bytes = get(in.body, 2, 2);
  const bool is_fragment = (get(in.body, 6, 2) & kFragment) != 0;
  if (bytes < kIpv4 || bytes > in.body.size() || is_fragment) return std::nullopt;
  if (get(in.body, 9, 1) != kProtocolIcmp) return std::nullopt;
  if (checksum_of(sum_of(in.body.first(kIpv4))) != 0) return std::nullopt;
  in.source = ipv4_at(in.body, 12);
  in.target = ipv4_at(in.body, 16);
  in.body = in.body.subspan(kIpv4, bytes - kIpv4);
  if (in.body.size() < kEchoHeader || checksum_of(sum_of(in.body)) != 0) return std::nullopt;
  if (get(in.body, 0, 2) != kEchoRequestIpv4 << 8) return std::nullopt;
  return echo(in, out);
}

AddressResolver::Answer AddressResolver::ipv6(Received in, Nanos now, std::span<std::byte> out) {
  if (in.body.size() < kIpv6 || get(in.body, 0, 1) >> 4 != 6) return std::nullopt;
  const std::size_t bytes = get(in.body, 4, 2);
  if (bytes > in.body.size() - kIpv6 || get(in.body, 6, 1) != kProtocolIcmpv6) return std::nullopt;
  in.hops = static_cast<std::uint8_t>(get(in.body, 7, 1));
  in.source = array_at<IpAddress>(in.body, 8);
  in.target = array_at<IpAddress>(in.body, 24);
  in.body = in.body.subspan(kIpv6, bytes);
  if (bytes < kEchoHeader || is_ipv4(in.source) || is_ipv4(in.target)) return std::nullopt;
  if (checksum_of(icmpv6_sum(in.source, in.target, in.body)) != 0) return std::nullopt;
  switch (get(in.body, 0, 2)) {  // type and code; all codes are 0
    case kEchoRequestIpv6 << 8:
      return echo(in, out);
    case kSolicitation << 8:
      return solicitation(in, now, out);
    case kAdvertisement << 8:
      return advertisement(in, now);
    default:
      return std::nullopt;
  }
}

// RFC 4861, sections 7.1.1 and 7.2.3.
AddressResolver::Answer AddressResolver::solicitation(const Received& in, Nanos now,
                                                      std::span<std::byte> out) {
  if (in.hops != kDiscoveryHops || in.body.size() < kDiscovery) return std::nullopt;
  const auto about = array_at<IpAddress>(in.body, kDiscoveryTarget);
  const bool is_addressed = in.target == about || in.target == solicited_node(about);
  if (is_ipv4(about) || !is_local(about) || !is_addressed) return std::nullopt;
  MacAddress sender_mac = in.source_mac;
  bool has_mac = false;
  if (!read_option(in.body.subspan(kDiscovery), kOptionSource, sender_mac, has_mac)) {
    return std::nullopt;
  }
  Received to;
  to.source = about;
  // A host that checks whether an address is free has no address itself (RFC 4862). All are told.
  if (in.source == IpAddress{}) {
    if (has_mac || in.target == about) return std::nullopt;
    to.target = kAllNodes;
    to.target_mac = multicast_mac(kAllNodes);
    ++counters_.address_answers;
    return write_discovery(true, kFlagOverride, to, about, out);
  }
  if (!is_unicast(in.source) || is_local(in.source)) return std::nullopt;
  if (has_mac) learn(in.source, sender_mac, now);
  to.target = in.source;
  to.target_mac = sender_mac;
  ++counters_.address_answers;
  return write_discovery(true, kFlagSolicited | kFlagOverride, to, about, out);
}

// RFC 4861, sections 7.1.2 and 7.2.5.
AddressResolver::Answer AddressResolver::advertisement(const Received& in, Nanos now) {
  if (in.hops != kDiscoveryHops || in.body.size() < kDiscovery) return std::nullopt;
  if (in.target_mac != options_.mac || !is_local(in.target)) return std::nullopt;
  const auto about = array_at<IpAddress>(in.body, kDiscoveryTarget);
  MacAddress mac{};
  bool has_mac = false;
  if (!read_option(in.body.subspan(kDiscovery), kOptionTarget, mac, has_mac) || !has_mac) {
    return std::nullopt;
  }
  if ((get(in.body, 4, 4) & kFlagSolicited) == 0) {
    ++counters_.unsolicited;
  } else {
    confirm(about, mac, now);
  }
  return 0;
}

// RFC 792 and RFC 4443, section 4.2: the request's bytes go back to its sender.
AddressResolver::Answer AddressResolver::echo(const Received& in, std::span<std::byte> out) {
  if (in.target_mac != options_.mac || !is_local(in.target)) return std::nullopt;
  if (!is_unicast(in.source) || is_local(in.source)) return std::nullopt;
  const bool v4 = is_ipv4(in.target);
  std::size_t at = write_ethernet(in.source_mac, v4 ? kTypeIpv4 : kTypeIpv6, out);
  const std::size_t header = v4 ? kIpv4 : kIpv6;
  const std::size_t bytes = in.body.size();
  if (bytes > kMostFrame - at - header) return std::nullopt;
  at += ip::write({.source = in.target,
                   .target = in.source,
                   .protocol = v4 ? kProtocolIcmp : kProtocolIcmpv6,
                   .hops = v4 ? kEchoHops : kDiscoveryHops,
                   .may_be_fragmented = true},
                  bytes, out.subspan(at));
  const auto body = out.subspan(at).first(bytes);
  std::memcpy(body.data(), in.body.data(), bytes);
  put(body, 0, 4, std::uint64_t{v4 ? kEchoReplyIpv4 : kEchoReplyIpv6} << 24);
  put(body, 2, 2, checksum_of(v4 ? sum_of(body) : icmpv6_sum(in.target, in.source, body)));
  ++counters_.echo_answers;
  return at + body.size();
}

std::size_t AddressResolver::write_ethernet(const MacAddress& target, std::uint16_t type,
                                            std::span<std::byte> out) const {
  std::memcpy(out.data(), target.data(), target.size());
  std::memcpy(out.data() + sizeof(MacAddress), options_.mac.data(), options_.mac.size());
  std::size_t at = kMacs;
  if (options_.vlan != 0) {
    put(out, at, 4, std::uint64_t{kTypeVlan} << 16 | options_.vlan);
    at += kTag;
  }
  put(out, at, 2, type);
  return at + kEtherType;
}

std::size_t AddressResolver::write_arp(bool is_reply, const MacAddress& target_mac,
                                       const IpAddress& source, const IpAddress& target,
                                       std::span<std::byte> out) const {
  const std::size_t at = write_ethernet(target_mac, kTypeArp, out);
  const auto body = out.subspan(at, kArp);
  put(body, 0, 6, kArpEthernetIpv4);
  put(body, 6, 2, is_reply ? kArpReply : kArpRequest);
  std::memcpy(body.data() + 8, options_.mac.data(), sizeof(MacAddress));
  std::memcpy(body.data() + 14, &source[12], 4);
  const MacAddress asked = is_reply ? target_mac : MacAddress{};
  std::memcpy(body.data() + 18, asked.data(), sizeof(MacAddress));
  std::memcpy(body.data() + 24, &target[12], 4);
  return at + kArp;
}

std::size_t AddressResolver::write_discovery(bool is_answer, std::uint32_t flags,
                                             const Received& to, const IpAddress& about,
                                             std::span<std::byte> out) const {
  std::size_t at = write_ethernet(to.target_mac, kTypeIpv6, out);
  constexpr std::size_t kBytes = kDiscovery + kMacOption;
  at += ip::write({.source = to.source,
                   .target = to.target,
                   .protocol = kProtocolIcmpv6,
                   .hops = kDiscoveryHops},
                  kBytes, out.subspan(at));
  const auto body = out.subspan(at, kBytes);
  put(body, 0, 4, std::uint64_t{is_answer ? kAdvertisement : kSolicitation} << 24);
  put(body, 4, 4, flags);
  std::memcpy(body.data() + kDiscoveryTarget, about.data(), about.size());
  put(body, kDiscovery, 2, std::uint64_t{is_answer ? kOptionTarget : kOptionSource} << 8 | 1);
  std::memcpy(body.data() + kDiscovery + 2, options_.mac.data(), sizeof(MacAddress));
  put(body, 2, 2, checksum_of(icmpv6_sum(to.source, to.target, body)));
  return at + kBytes;
}

std::size_t AddressResolver::write_request(const IpAddress& target,
                                           std::span<std::byte> out) const {
  const LocalAddress* const local = near(target);
  if (local == nullptr) return 0;
  if (is_ipv4(target)) return write_arp(false, kBroadcast, local->address, target, out);
  Received to;
  to.source = local->address;
  to.target = solicited_node(target);
  to.target_mac = multicast_mac(to.target);
  return write_discovery(false, 0, to, target, out);
}

bool AddressResolver::is_local(const IpAddress& address) const {
  return std::any_of(options_.addresses.begin(), options_.addresses.end(),
                     [&](const LocalAddress& local) { return local.address == address; });
}

// The address of the port whose link `address` is on.
const LocalAddress* AddressResolver::near(const IpAddress& address) const {
  for (const LocalAddress& local : options_.addresses) {
    if (is_ipv4(local.address) != is_ipv4(address)) continue;
    const unsigned bits = local.prefix_bits + (is_ipv4(address) ? kIpv4PrefixBits : 0);
    if (has_prefix(address, local.address, bits) || is_link_local(address)) return &local;
  }
  return nullptr;
}

std::optional<IpAddress> AddressResolver::next_hop(const IpAddress& target) const {
  if (!is_unicast(target) || is_local(target)) return std::nullopt;
  if (near(target) != nullptr) return target;
  for (const LocalAddress& local : options_.addresses) {
    if (local.gateway && is_ipv4(local.address) == is_ipv4(target) &&
        near(*local.gateway) != nullptr) {
      return local.gateway;
    }
  }
  return std::nullopt;
}

AddressResolver::Entry* AddressResolver::find(const IpAddress& address) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.address == address; });
  return found == entries_.end() ? nullptr : &*found;
}

// Returns a new entry, or nullptr when all that it inspects are in use.
AddressResolver::Entry* AddressResolver::add(const IpAddress& address, std::size_t most_tries,
                                             Nanos now) {
  if (entries_.size() < options_.most_entries) {
    entries_.push_back({.address = address});
    return &entries_.back();
  }
  for (std::size_t i = std::min(most_tries, entries_.size()); i > 0; --i) {
    Entry& entry = entries_[hand_];
    hand_ = (hand_ + 1) % entries_.size();
    if (now < entry.used_until) continue;
    entry = {.address = address};
    return &entry;
  }
  return nullptr;
}

void AddressResolver::ask(Entry& entry, Nanos now) {
  entry.is_asked = true;
  entry.attempts = 0;
  entry.deadline = now;
  next_deadline_ = std::min(next_deadline_, now);
}

// A host near the port has asked for the port's address, and will get packets from it.
void AddressResolver::learn(const IpAddress& address, const MacAddress& mac, Nanos now) {
  if (!is_unicast(address) || near(address) == nullptr) return;
  Entry* entry = find(address);
  const bool is_new = entry == nullptr;
  if (is_new) entry = add(address, kTriesToLearn, now);
  if (entry == nullptr) return;
  // One in use changes by answers to own requests alone, unless there is nothing to lose.
  if (!is_new && now < entry->used_until && entry->is_known) return;
  entry->mac = mac;
  entry->is_known = true;
  entry->is_asked = false;
  entry->found_at = now;
  ++counters_.learned;
}

void AddressResolver::confirm(const IpAddress& address, const MacAddress& mac, Nanos now) {
  Entry* const entry = find(address);
  if (entry == nullptr || !entry->is_asked) {
    ++counters_.unsolicited;
    return;
  }
  entry->mac = mac;
  entry->is_known = true;
  entry->is_asked = false;
  entry->found_at = now;
  ++counters_.confirmed;
}

Resolution AddressResolver::resolve(const IpAddress& target, Nanos now) {
  const auto hop = next_hop(target);
  if (!hop) return {.reach = Reach::kNoRoute};
  Entry* entry = find(*hop);
  const bool is_new = entry == nullptr;
  if (is_new) entry = add(*hop, entries_.size(), now);
  if (entry == nullptr) return {.reach = Reach::kTableFull};
  entry->used_until = now + options_.lifetime;
  const Nanos valid_for = entry->is_known ? options_.lifetime : options_.pause;
  const bool is_old = is_new || now - entry->found_at >= valid_for;
  if (is_old && !entry->is_asked) ask(*entry, now);
  // The old MAC serves until there is an answer, or none to any request.
  if (entry->is_known) return {.reach = Reach::kKnown, .mac = entry->mac};
  return {.reach = entry->is_asked ? Reach::kAsked : Reach::kUnreachable};
}

std::size_t AddressResolver::poll(Nanos now, std::span<std::byte> out) {
  if (now < next_deadline_) return 0;
  next_deadline_ = kForever;
  for (Entry& entry : entries_) {
    if (!entry.is_asked) continue;
    if (entry.deadline <= now) {
      if (entry.attempts < options_.attempts) {
        ++entry.attempts;
        entry.deadline = now + options_.retry;
        next_deadline_ = now;  // others may be due too
        ++counters_.requests;
        return write_request(entry.address, out);
      }
      entry.is_asked = false;
      entry.is_known = false;
      entry.found_at = now;
      continue;
    }
    next_deadline_ = std::min(next_deadline_, entry.deadline);
  }
  return 0;
}

}  // namespace tally::transport::roce
