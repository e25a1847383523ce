// What a host does beside RoCE on a port that no kernel serves: it answers ARP requests, neighbour
// solicitations and echo requests for the port's addresses, and finds the MAC addresses of others.
// Pure: frames and `now` in, frames out. Not thread-safe.
//
// ARP and neighbour discovery have no authentication, so any host on the link can send false
// addresses. Therefore the table has a limit. An answer counts only while a request is open. A
// request of another host never replaces an entry that is in use.
//
// Sources: RFC 826 (ARP), RFC 4861 (neighbour discovery: sections 4.3, 4.4, 7.1, 7.2), RFC 792
// (ICMP), RFC 4443 (ICMPv6: sections 2.3, 4.1, 4.2), RFC 2464 (IPv6 over Ethernet).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "dataplane/transport/roce/port/next_hops.h"
#include "dataplane/transport/roce/wire/packet.h"

namespace tally::transport::roce {

// An address of the port and what is near it.
struct LocalAddress {
  IpAddress address{};                 // IPv4 as ::ffff:a.b.c.d
  unsigned prefix_bits = 24;           // of its own family: 0 to 32, or 0 to 128
  std::optional<IpAddress> gateway{};  // for addresses outside the prefix; within the prefix itself
};

struct ResolverOptions {
  MacAddress mac{};
  std::uint16_t vlan = 0;  // 0: frames without a tag
  std::vector<LocalAddress> addresses;
  std::size_t most_entries = 512;
  Nanos retry = 200 * kMillisecond;  // between requests for one address
  unsigned attempts = 5;             // requests, before an address counts as unreachable
  // How long an entry is valid. After that the resolver asks again for an address that is in use,
  // and may replace an entry that is not in use.
  Nanos lifetime = 60 * kSecond;
  Nanos pause = kSecond;  // before it asks again for an address that is unreachable
};

// Numbers of frames.
struct ResolverCounters {
  std::uint64_t address_answers = 0;  // to ARP requests and neighbour solicitations
  std::uint64_t echo_answers = 0;
  std::uint64_t learned = 0;    // entries from requests of others
  std::uint64_t confirmed = 0;  // answers to own requests
  std::uint64_t requests = 0;
  std::uint64_t unsolicited = 0;  // answers to no open request: ignored
  std::uint64_t ignored = 0;      // malformed, for others, or of another protocol
};

class AddressResolver {
 public:
  // The longest frame that it reads or writes: Ethernet's usual one, with a VLAN tag.
  static constexpr std::size_t kMostFrame = 1518;

  explicit AddressResolver(ResolverOptions options);

  // Reads a frame. Writes the answer to `out` and returns its bytes, or 0 when there is none.
  // Precondition: `out` has kMostFrame bytes.
  std::size_t receive(std::span<const std::byte> frame, Nanos now, std::span<std::byte> out);

  // The MAC address that packets to `target` need. Asks for it when it is not known. An entry is in
  // use as long as this is called for it at least once in a lifetime.
  Resolution resolve(const IpAddress& target, Nanos now);

  // Writes the next request that is due to `out` and returns its bytes, or 0 when none is due.
  // Precondition: `out` has kMostFrame bytes.
  std::size_t poll(Nanos now, std::span<std::byte> out);
  // No request is due before. kForever: none is open.
  Nanos next_deadline() const { return next_deadline_; }

  std::size_t entries() const { return entries_.size(); }
  const ResolverCounters& counters() const { return counters_; }

 private:
  // A frame whose Ethernet header, and IP header if it has one, are valid.
  struct Received {
    std::span<const std::byte> body;  // behind the Ethernet header; then behind the IP header
    std::uint16_t type = 0;
    MacAddress source_mac{};
    MacAddress target_mac{};
    IpAddress source{};
    IpAddress target{};
    std::uint8_t hops = 0;
  };
  struct Entry {
    IpAddress address{};
    MacAddress mac{};
    bool is_known = false;
    bool is_asked = false;  // a request is open
    unsigned attempts = 0;  // of the open request, so far
    Nanos deadline = 0;     // of the next attempt
    Nanos found_at = 0;     // when the MAC, or that there is none, was found
    Nanos used_until = 0;
  };
  // Bytes of the answer, 0 for none; nothing when the frame is to be ignored.
  using Answer = std::optional<std::size_t>;

  Answer answer(std::span<const std::byte> frame, Nanos now, std::span<std::byte> out);
  std::optional<Received> read_ethernet(std::span<const std::byte> frame) const;
  Answer arp(const Received& in, Nanos now, std::span<std::byte> out);
  Answer ipv4(Received in, std::span<std::byte> out);
  Answer ipv6(Received in, Nanos now, std::span<std::byte> out);
  Answer solicitation(const Received& in, Nanos now, std::span<std::byte> out);
  Answer advertisement(const Received& in, Nanos now);
  Answer echo(const Received& in, std::span<std::byte> out);

  std::size_t write_ethernet(const MacAddress& target, std::uint16_t type,
                             std::span<std::byte> out) const;
  std::size_t write_arp(bool is_reply, const MacAddress& target_mac, const IpAddress& source,
                        const IpAddress& target, std::span<std::byte> out) const;
  std::size_t write_discovery(bool is_answer, std::uint32_t flags, const Received& to,
                              const IpAddress& about, std::span<std::byte> out) const;
  std::size_t write_request(const IpAddress& target, std::span<std::byte> out) const;

  bool is_local(const IpAddress& address) const;
  const LocalAddress* near(const IpAddress& address) const;
  std::optional<IpAddress> next_hop(const IpAddress& target) const;
  Entry* find(const IpAddress& address);
  Entry* add(const IpAddress& address, std::size_t most_tries, Nanos now);
  void ask(Entry& entry, Nanos now);
  void learn(const IpAddress& address, const MacAddress& mac, Nanos now);
  void confirm(const IpAddress& address, const MacAddress& mac, Nanos now);

  ResolverOptions options_;
  std::vector<Entry> entries_;  // has its final capacity
  std::size_t hand_ = 0;        // of entries_: where the search for one to displace goes on
  Nanos next_deadline_ = kForever;
  ResolverCounters counters_;
};

}  // namespace tally::transport::roce
