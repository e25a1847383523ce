#include "dataplane/transport/roce/port/address_resolver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tally::transport::roce {
namespace {

using Bytes = std::vector<std::byte>;

// The port is 02:09:00:00:00:01, 10.9.0.1 and fd00::1. The peer is 02:09:00:00:00:02, 10.9.0.2 and
// fd00::2. Checksums in these frames come from another implementation.
constexpr const char* kArpRequest =
    "ffffffffffff020900000002080600010800060400010209000000020a0900020000000000000a090001";
constexpr const char* kArpAnswer =
    "020900000002020900000001080600010800060400020209000000010a0900010209000000020a090002";
constexpr const char* kArpReply =
    "020900000001020900000002080600010800060400020209000000020a0900020209000000010a090001";
constexpr const char* kArpAsk =
    "ffffffffffff020900000001080600010800060400010209000000010a0900010000000000000a090002";
constexpr const char* kArpRequestVlan =
    "ffffffffffff0209000000028100a005080600010800060400010209000000020a0900020000000000000a09"
    "0001";
constexpr const char* kArpAnswerVlan =
    "02090000000202090000000181000005080600010800060400020209000000010a0900010209000000020a09"
    "0002";
constexpr const char* kPing4 =
    "02090000000102090000000208004500002100000000400166c80a0900020a0900010800a1f8123400016865"
    "6c6c6f";
constexpr const char* kPong4 =
    "02090000000202090000000108004500002100000000400166c80a0900010a0900020000a9f8123400016865"
    "6c6c6f";
constexpr const char* kPing6 =
    "02090000000102090000000286dd60000000000d3a40fd000000000000000000000000000002fd0000000000"
    "0000000000000000000180002fac1234000168656c6c6f";
constexpr const char* kPong6 =
    "02090000000202090000000186dd60000000000d3afffd000000000000000000000000000001fd0000000000"
    "0000000000000000000281002eac1234000168656c6c6f";
constexpr const char* kSolicitation =
    "3333ff00000102090000000286dd6000000000203afffd000000000000000000000000000002ff0200000000"
    "000000000001ff00000187007d8e00000000fd0000000000000000000000000000010101020900000002";
constexpr const char* kAdvertisement =
    "02090000000202090000000186dd6000000000203afffd000000000000000000000000000001fd0000000000"
    "0000000000000000000288001c9360000000fd0000000000000000000000000000010201020900000001";
constexpr const char* kProbe =
    "3333ff00000102090000000286dd6000000000183aff00000000000000000000000000000000ff0200000000"
    "000000000001ff00000187007da500000000fd000000000000000000000000000001";
constexpr const char* kProbeAnswer =
    "33330000000102090000000186dd6000000000203afffd000000000000000000000000000001ff0200000000"
    "0000000000000000000188005a9220000000fd0000000000000000000000000000010201020900000001";
constexpr const char* kAsk6 =
    "3333ff00000202090000000186dd6000000000203afffd000000000000000000000000000001ff0200000000"
    "000000000001ff00000287007d8e00000000fd0000000000000000000000000000020101020900000001";
constexpr const char* kReply6 =
    "02090000000102090000000286dd6000000000203afffd000000000000000000000000000002fd0000000000"
    "0000000000000000000188001c9160000000fd0000000000000000000000000000020201020900000002";
constexpr const char* kReply6Unsolicited =
    "02090000000102090000000286dd6000000000203afffd000000000000000000000000000002fd0000000000"
    "0000000000000000000188005c9120000000fd0000000000000000000000000000020201020900000002";

constexpr MacAddress kMac = {2, 9, 0, 0, 0, 1};
constexpr MacAddress kPeerMac = {2, 9, 0, 0, 0, 2};
constexpr MacAddress kOtherMac = {2, 9, 0, 0, 0, 0x66};

IpAddress ipv4(unsigned third, unsigned last) {
  return {0,
          0,
          0,
          0,
          0,
          0,
          0,
          0,
          0,
          0,
          255,
          255,
          10,
          9,
          static_cast<std::uint8_t>(third),
          static_cast<std::uint8_t>(last)};
}

IpAddress ipv6(std::uint8_t last) {
  return {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
}

const IpAddress kPeer = ipv4(0, 2);

Bytes bytes_of(std::string_view hex) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoul(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

ResolverOptions options() {
  ResolverOptions options;
  options.mac = kMac;
  options.addresses = {{.address = ipv4(0, 1), .prefix_bits = 24, .gateway = ipv4(0, 254)},
                       {.address = ipv6(1), .prefix_bits = 64}};
  options.most_entries = 8;
  options.retry = 10;
  options.attempts = 3;
  options.lifetime = 1000;
  options.pause = 100;
  return options;
}

class Resolver : public testing::Test {
 protected:
  Bytes receive(const Bytes& frame, Nanos now = 0) {
    Bytes out(AddressResolver::kMostFrame);
    out.resize(resolver_.receive(frame, now, out));
    return out;
  }
  Bytes receive(const char* hex, Nanos now = 0) { return receive(bytes_of(hex), now); }
  Bytes poll(Nanos now) {
    Bytes out(AddressResolver::kMostFrame);
    out.resize(resolver_.poll(now, out));
    return out;
  }
  Reach reach(const IpAddress& address, Nanos now = 0) {
    return resolver_.resolve(address, now).reach;
  }
  MacAddress mac(const IpAddress& address, Nanos now = 0) {
    const Resolution found = resolver_.resolve(address, now);
    EXPECT_EQ(found.reach, Reach::kKnown);
    return found.mac;
  }

  // A request for the port's address from 10.9.0.`last`.
  Bytes arp_from(std::uint8_t last, const MacAddress& mac) {
    Bytes frame = bytes_of(kArpRequest);
    std::memcpy(frame.data() + 6, mac.data(), 6);
    std::memcpy(frame.data() + 22, mac.data(), 6);
    frame[31] = std::byte{last};
    return frame;
  }
  Bytes reply_from(std::uint8_t last, const MacAddress& mac) {
    Bytes frame = bytes_of(kArpReply);
    std::memcpy(frame.data() + 6, mac.data(), 6);
    std::memcpy(frame.data() + 22, mac.data(), 6);
    frame[31] = std::byte{last};
    return frame;
  }

  AddressResolver resolver_{options()};
};

TEST_F(Resolver, AnswersRequestsAndEchoes) {
  struct Exchange {
    const char* in;
    const char* out;
  };
  for (const Exchange& exchange : {
           Exchange{kArpRequest, kArpAnswer},
           Exchange{kPing4, kPong4},
           Exchange{kPing6, kPong6},
           Exchange{kSolicitation, kAdvertisement},
           Exchange{kProbe, kProbeAnswer},
       }) {
    EXPECT_EQ(receive(exchange.in), bytes_of(exchange.out)) << exchange.in;
    // Short frames arrive with padding.
    Bytes padded = bytes_of(exchange.in);
    padded.resize(padded.size() + 20, std::byte{0x55});
    EXPECT_EQ(receive(padded), bytes_of(exchange.out)) << exchange.in;
  }
  EXPECT_EQ(resolver_.counters().address_answers, 6U);
  EXPECT_EQ(resolver_.counters().echo_answers, 4U);
  EXPECT_EQ(resolver_.counters().ignored, 0U);
}

TEST_F(Resolver, AnswersToAnAddressProbe) {
  Bytes probe = bytes_of(kArpRequest);
  std::memset(probe.data() + 28, 0, 4);  // the sender has no address yet
  const Bytes out = receive(probe);
  ASSERT_EQ(out.size(), 42U);
  EXPECT_EQ(resolver_.entries(), 0U);
}

TEST_F(Resolver, UsesItsVlanAlone) {
  EXPECT_TRUE(receive(kArpRequestVlan).empty());
  ResolverOptions tagged = options();
  tagged.vlan = 5;
  resolver_ = AddressResolver(tagged);
  EXPECT_EQ(receive(kArpRequestVlan), bytes_of(kArpAnswerVlan));
  EXPECT_TRUE(receive(kArpRequest).empty());
}

TEST_F(Resolver, IgnoresDamagedFrames) {
  for (const char* hex : {kArpRequest, kPing4, kPing6, kSolicitation, kProbe, kReply6}) {
    const Bytes good = bytes_of(hex);
    for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
      EXPECT_TRUE(
          receive({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(bytes)}).empty());
    }
    if (hex == kArpRequest) continue;
    // Checksums cover all of the ICMP message.
    for (std::size_t at = 54; at < good.size(); ++at) {
      Bytes bad = good;
      bad[at] ^= std::byte{4};
      EXPECT_TRUE(receive(bad).empty()) << hex << " " << at;
    }
  }
  EXPECT_EQ(resolver_.entries(), 0U);
}

TEST_F(Resolver, IgnoresWhatIsNotForIt) {
  struct Change {
    const char* frame;
    std::size_t at;
    unsigned value;
  };
  for (const Change& change : {
           Change{kArpRequest, 41, 9},      // for 10.9.0.9
           Change{kArpRequest, 31, 1},      // from the port's own address
           Change{kArpRequest, 6, 1},       // from a group
           Change{kArpRequest, 22, 0xff},   // for a group
           Change{kArpRequest, 15, 6},      // IEEE 802
           Change{kArpRequest, 18, 7},      // long addresses
           Change{kArpRequest, 21, 3},      // another operation
           Change{kPing4, 5, 9},            // for another MAC
           Change{kPing4, 0, 0xff},         // for all
           Change{kPing4, 20, 0x20},        // a fragment
           Change{kPing4, 14, 0x46},        // options
           Change{kPing4, 23, 17},          // UDP
           Change{kPing4, 33, 7},           // another address
           Change{kSolicitation, 21, 254},  // through a router
           Change{kSolicitation, 20, 17},   // UDP
       }) {
    Bytes frame = bytes_of(change.frame);
    frame[change.at] = static_cast<std::byte>(change.value);
    EXPECT_TRUE(receive(frame).empty()) << change.frame << " " << change.at;
  }
  EXPECT_EQ(resolver_.entries(), 0U);
  EXPECT_EQ(resolver_.counters().ignored, 15U);
}

TEST_F(Resolver, AsksAndTakesTheReply) {
  EXPECT_EQ(resolver_.next_deadline(), kForever);
  EXPECT_EQ(reach(kPeer), Reach::kAsked);
  EXPECT_LE(resolver_.next_deadline(), 0);
  EXPECT_EQ(poll(0), bytes_of(kArpAsk));
  EXPECT_TRUE(poll(0).empty());
  EXPECT_EQ(resolver_.next_deadline(), 10);
  EXPECT_TRUE(receive(kArpReply).empty());
  EXPECT_EQ(mac(kPeer), kPeerMac);
  EXPECT_TRUE(poll(10).empty());
  EXPECT_EQ(resolver_.next_deadline(), kForever);

  EXPECT_EQ(reach(ipv6(2)), Reach::kAsked);
  EXPECT_EQ(poll(0), bytes_of(kAsk6));
  receive(kReply6Unsolicited);
  EXPECT_EQ(reach(ipv6(2)), Reach::kAsked);
  receive(kReply6);
  EXPECT_EQ(mac(ipv6(2)), kPeerMac);
  EXPECT_EQ(resolver_.counters().confirmed, 2U);
}

TEST_F(Resolver, StopsAskingAfterItsAttempts) {
  EXPECT_EQ(reach(kPeer), Reach::kAsked);
  for (const Nanos now : {0, 10, 20}) {
    EXPECT_EQ(poll(now), bytes_of(kArpAsk)) << now;
    EXPECT_TRUE(poll(now + 9).empty());
  }
  EXPECT_TRUE(poll(30).empty());
  EXPECT_EQ(resolver_.next_deadline(), kForever);
  EXPECT_EQ(reach(kPeer, 30), Reach::kUnreachable);
  EXPECT_TRUE(poll(31).empty());
  EXPECT_EQ(resolver_.counters().requests, 3U);
  receive(kArpReply, 32);  // too late
  EXPECT_EQ(resolver_.counters().unsolicited, 1U);
  EXPECT_EQ(reach(kPeer, 129), Reach::kUnreachable);
  EXPECT_EQ(reach(kPeer, 130), Reach::kAsked);  // it tries again
  EXPECT_EQ(poll(130), bytes_of(kArpAsk));
}

// Its entry became old while it was cut off.
TEST_F(Resolver, AHostThatComesBackIsSoonFoundAgain) {
  EXPECT_EQ(reach(kPeer), Reach::kAsked);
  poll(0);
  receive(kArpReply, 5);
  Nanos now = 1005;
  EXPECT_EQ(reach(kPeer, now), Reach::kKnown);
  while (reach(kPeer, now) == Reach::kKnown) poll(now += 10);
  EXPECT_EQ(reach(kPeer, now), Reach::kUnreachable);
  EXPECT_EQ(reach(kPeer, now + 100), Reach::kAsked);
  poll(now + 100);
  receive(kArpReply, now + 105);
  EXPECT_EQ(mac(kPeer, now + 105), kPeerMac);
}

TEST_F(Resolver, AsksAgainWhileTheOldMacServes) {
  EXPECT_EQ(reach(kPeer), Reach::kAsked);
  poll(0);
  receive(kArpReply, 5);
  EXPECT_EQ(mac(kPeer, 1004), kPeerMac);
  EXPECT_TRUE(poll(1004).empty());
  EXPECT_EQ(mac(kPeer, 1005), kPeerMac);
  EXPECT_EQ(poll(1005), bytes_of(kArpAsk));
  receive(reply_from(2, kOtherMac), 1006);
  EXPECT_EQ(mac(kPeer, 1007), kOtherMac);
}

TEST_F(Resolver, UsesTheGatewayForOthers) {
  EXPECT_EQ(reach(ipv4(7, 7)), Reach::kAsked);
  const Bytes request = poll(0);
  ASSERT_EQ(request.size(), 42U);
  EXPECT_EQ(request[41], std::byte{254});
  receive(reply_from(254, kOtherMac));
  EXPECT_EQ(mac(ipv4(7, 7)), kOtherMac);
  EXPECT_EQ(mac(ipv4(8, 8)), kOtherMac);
  EXPECT_EQ(resolver_.entries(), 1U);
  IpAddress far = ipv6(2);
  far[1] = 9;
  EXPECT_EQ(reach(far), Reach::kNoRoute);         // IPv6 has no gateway here
  EXPECT_EQ(reach(ipv4(0, 1)), Reach::kNoRoute);  // the port itself
  EXPECT_EQ(reach(IpAddress{}), Reach::kNoRoute);
  IpAddress group = ipv6(2);
  group[0] = 0xff;
  EXPECT_EQ(reach(group), Reach::kNoRoute);
}

TEST_F(Resolver, LearnsFromRequestsForItsAddress) {
  receive(kArpRequest);
  EXPECT_EQ(mac(kPeer), kPeerMac);
  receive(kSolicitation);
  EXPECT_EQ(mac(ipv6(2)), kPeerMac);
  Bytes elsewhere = arp_from(3, kOtherMac);
  elsewhere[30] = std::byte{7};  // 10.9.7.3 is outside the prefix
  EXPECT_FALSE(receive(elsewhere).empty());
  EXPECT_EQ(resolver_.entries(), 2U);
  receive(reply_from(4, kOtherMac));  // not asked for
  EXPECT_EQ(resolver_.entries(), 2U);
  EXPECT_EQ(resolver_.counters().unsolicited, 1U);
}

TEST_F(Resolver, KeepsEntriesInUse) {
  // Other hosts cannot change an entry in use.
  receive(kArpRequest);
  EXPECT_EQ(mac(kPeer), kPeerMac);
  receive(arp_from(2, kOtherMac));
  receive(reply_from(2, kOtherMac));
  EXPECT_EQ(mac(kPeer), kPeerMac);
  // Nor displace it, however many they claim to be.
  for (unsigned last = 3; last < 250; ++last) {
    receive(arp_from(static_cast<std::uint8_t>(last), kOtherMac), 500);
  }
  EXPECT_EQ(resolver_.entries(), 8U);
  EXPECT_EQ(mac(kPeer, 500), kPeerMac);
  // The port's own requests take the others' entries, as long as there are any.
  for (unsigned last = 100; last < 107; ++last) EXPECT_EQ(reach(ipv4(0, last), 500), Reach::kAsked);
  EXPECT_EQ(reach(ipv4(0, 107), 500), Reach::kTableFull);
  receive(arp_from(50, kOtherMac), 500);
  EXPECT_EQ(reach(ipv4(0, 50), 500), Reach::kTableFull);
  EXPECT_EQ(mac(kPeer, 500), kPeerMac);
  // An entry that nothing uses any more may go.
  EXPECT_EQ(reach(ipv4(0, 107), 1501), Reach::kAsked);
  EXPECT_EQ(resolver_.entries(), 8U);
}

TEST_F(Resolver, SendsAllRequestsThatAreDue) {
  for (unsigned last = 100; last < 105; ++last) EXPECT_EQ(reach(ipv4(0, last)), Reach::kAsked);
  std::vector<std::byte> asked;
  for (Bytes request = poll(0); !request.empty(); request = poll(0)) asked.push_back(request[41]);
  EXPECT_EQ(asked, bytes_of("6465666768"));
}

TEST_F(Resolver, RefusesOversizedFrames) {
  EXPECT_TRUE(receive(Bytes(2000)).empty());
  Bytes frame = bytes_of(kPing4);
  frame.resize(AddressResolver::kMostFrame);
  EXPECT_EQ(receive(frame), bytes_of(kPong4));
}

// Replaces a word behind the checksum of an ICMPv6 message, and makes the checksum right (RFC
// 1624).
Bytes with_word(const char* hex, std::size_t at, unsigned value) {
  Bytes frame = bytes_of(hex);
  const auto word = [&](std::size_t i) {
    return std::to_integer<unsigned>(frame[i]) << 8 | std::to_integer<unsigned>(frame[i + 1]);
  };
  const auto set = [&](std::size_t i, unsigned number) {
    frame[i] = static_cast<std::byte>(number >> 8);
    frame[i + 1] = static_cast<std::byte>(number);
  };
  constexpr std::size_t kChecksum = 56;
  unsigned sum = (~word(kChecksum) & 0xffffU) + (~word(at) & 0xffffU) + value;
  while (sum >> 16 != 0) sum = (sum & 0xffffU) + (sum >> 16);
  set(at, value);
  set(kChecksum, ~sum & 0xffffU);
  return frame;
}

TEST_F(Resolver, ChecksOptions) {
  constexpr std::size_t kOption = 78;
  // An unknown option is skipped, and the answer goes to the sender of the frame.
  EXPECT_EQ(receive(with_word(kSolicitation, kOption, 0x0e01)), bytes_of(kAdvertisement));
  EXPECT_EQ(resolver_.entries(), 0U);
  EXPECT_EQ(resolver_.counters().ignored, 0U);
  for (const unsigned option : {0x0100U, 0x0102U, 0x01ffU, 0x0e00U, 0x0e02U}) {  // type, length
    EXPECT_TRUE(receive(with_word(kSolicitation, kOption, option)).empty()) << option;
  }
  EXPECT_TRUE(receive(with_word(kSolicitation, kOption + 2, 0x0309)).empty());  // a group's MAC
  EXPECT_EQ(resolver_.counters().ignored, 6U);
  EXPECT_EQ(resolver_.entries(), 0U);
}

// Damaged frames of exactly their length, so that sanitizers see reads behind the end.
TEST_F(Resolver, StaysWithinItsLimitsWhateverArrives) {
  std::uint64_t random = 1;
  const auto next = [&](std::size_t limit) {  // Knuth's MMIX generator
    random = random * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::size_t>(random >> 33) % limit;
  };
  const std::array<const char*, 7> frames = {kArpRequest, kArpReply,     kPing4, kPing6,
                                             kProbe,      kSolicitation, kReply6};
  for (int i = 0; i < 20'000; ++i) {
    Bytes frame = bytes_of(frames[next(frames.size())]);
    for (std::size_t changes = next(4); changes > 0; --changes) {
      frame[next(frame.size())] = static_cast<std::byte>(next(256));
    }
    if (next(4) == 0) frame.resize(next(frame.size() + 1));
    EXPECT_LE(receive(frame, i).size(), frame.size() + 8);  // an option, in answer to a probe
    if (next(8) == 0) resolver_.resolve(ipv4(0, static_cast<unsigned>(next(256))), i);
    if (next(8) == 0) poll(i);
    EXPECT_LE(resolver_.entries(), 8U);
  }
}

}  // namespace
}  // namespace tally::transport::roce
