#include "dataplane/transport/roce/port/port.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/roce/frames.h"
#include "tests/support/roce/ports.h"

namespace tally::transport::roce {
namespace {

std::string unused_ring() {
  static int number = 0;  // the device's rings outlive it
  return "net_ring" + std::to_string(number++);
}

// A port whose frames come back to it.
std::unique_ptr<Port> open_ring(bool may_borrow = true) {
  PortOptions options = small(unused_ring());
  options.mac = MacAddress{2, 9, 0, 0, 0, 1};
  options.may_borrow = may_borrow;
  return open(options);
}

TEST(RocePort, ReportsWhatItIs) {
  const auto port = open_ring();
  ASSERT_NE(port, nullptr);
  EXPECT_EQ(port->facts().name.substr(0, 8), "net_ring");
  EXPECT_EQ(port->facts().driver, "net_ring");
  EXPECT_EQ(port->facts().mac, (MacAddress{2, 9, 0, 0, 0, 1}));
  EXPECT_EQ(port->facts().mtu, 4500U);
  EXPECT_EQ(port->facts().queues, 1U);
  EXPECT_TRUE(port->facts().has_multi_segment);
  EXPECT_TRUE(port->link().is_up);
  EXPECT_EQ(port->missed(), 0U);
}

TEST(RocePort, RefusesWhatNoDeviceCan) {
  ASSERT_TRUE(start_test_eal());
  PortOptions options = small("net_nothing0");
  EXPECT_EQ(Port::open(options).status(), Status::kUnavailable);
  options = small("net_ring99");
  options.addresses.clear();
  EXPECT_EQ(Port::open(options).status(), Status::kInvalidArgument);
  options = small("net_ring99");
  options.mtu = 10;
  EXPECT_EQ(Port::open(options).status(), Status::kInvalidArgument);
  options = small("net_ring99");
  options.queues = 500;
  EXPECT_EQ(Port::open(options).status(), Status::kUnsupported);
}

TEST(RocePort, KeepsWhatTheDeviceNeedsAsLongAsItIsOpen) {
  PortOptions options = small(unused_ring());
  auto needed = std::make_shared<int>();
  const std::weak_ptr<int> watched = needed;
  options.kept = std::move(needed);
  auto port = open(options);
  ASSERT_NE(port, nullptr);
  options.kept.reset();
  EXPECT_FALSE(watched.expired());
  port.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(RocePort, PacketsOfAllOpcodesArriveAsTheyAreSent) {
  for (const bool may_borrow : {true, false}) {
    const auto port = open_ring(may_borrow);
    ASSERT_NE(port, nullptr);
    send_all_opcodes(port->queue(0), port->queue(0), port->facts().mac);
    const PortCounters& counters = port->queue(0).counters();
    EXPECT_EQ(counters.sent_packets, counters.received_packets);
    EXPECT_EQ(counters.sent_bytes, counters.received_bytes);
    EXPECT_EQ(counters.borrowed_packets > 0, may_borrow);
  }
}

TEST(RocePort, TakesPacketsOfItsVlanAlone) {
  for (const std::uint16_t own : {0, 7}) {
    PortOptions options = small(unused_ring());
    options.mac = MacAddress{2, 9, 0, 0, 0, 1};
    options.vlan = own;
    const auto port = open(options);
    ASSERT_NE(port, nullptr);
    PortQueue& queue = port->queue(0);
    std::array<Arrival, 1> out;
    for (const std::uint16_t vlan : {0, 7, 8}) {
      Packet packet = packet_to(port->facts().mac);
      packet.route.vlan = vlan;
      ASSERT_TRUE(queue.send(packet, {}));
      queue.flush();
      EXPECT_EQ(queue.receive(out, monotonic_now()), vlan == own ? 1U : 0U) << own << ", " << vlan;
    }
    EXPECT_EQ(queue.counters().other_address, 2U);
  }
}

TEST(RocePort, TheWireHasTheStandardIcrc) {
  const auto port = open_ring();
  ASSERT_NE(port, nullptr);
  PortQueue& queue = port->queue(0);
  std::array<Arrival, 1> out;
  for (const std::size_t bytes : {0U, 1U, 2U, 3U, 5U, 200U, 201U, 202U, 203U}) {
    Packet packet = packet_to(port->facts().mac);
    ASSERT_TRUE(queue.send_frame(tally::testing::write_frame(packet, pattern(bytes))));
    queue.flush();
    ASSERT_EQ(receive(queue, out), 1U) << bytes;
    EXPECT_EQ(joined(out[0].payload()), pattern(bytes));
  }
}

TEST(RocePort, DropsAndCountsWhatIsWrong) {
  const auto port = open_ring();
  ASSERT_NE(port, nullptr);
  PortQueue& queue = port->queue(0);
  const PortCounters& counters = queue.counters();
  Packet packet = packet_to(port->facts().mac);
  const Bytes good = tally::testing::write_frame(packet, pattern(100));
  std::array<Arrival, 4> out;
  const auto arrives = [&](const Bytes& frame) {
    EXPECT_TRUE(queue.send_frame(frame));
    queue.flush();
    return queue.receive(out, 0) == 1;
  };
  EXPECT_TRUE(arrives(good));
  // Every byte behind the Ethernet header counts, but for those that routers may change.
  constexpr std::array<std::size_t, 7> kMayChange = {15, 22, 24, 25, 40, 41, 46};
  for (std::size_t at = 14; at < good.size(); ++at) {
    for (const unsigned mask : {0x01U, 0x10U}) {
      Bytes bad = good;
      bad[at] ^= static_cast<std::byte>(mask);
      const bool may_change =
          std::find(kMayChange.begin(), kMayChange.end(), at) != kMayChange.end();
      EXPECT_EQ(arrives(bad), may_change) << at;
    }
  }
  EXPECT_GT(counters.wrong_icrc, 100U);
  for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
    EXPECT_FALSE(arrives({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(bytes)}));
  }
  const auto unreadable = [&](Unreadable reason) {
    return counters.unreadable[static_cast<std::size_t>(reason)];
  };
  EXPECT_GT(unreadable(Unreadable::kNotRoce), 0U);
  EXPECT_GT(unreadable(Unreadable::kLength), 0U);
  EXPECT_GT(unreadable(Unreadable::kFragment), 0U);
  EXPECT_GT(unreadable(Unreadable::kVersion), 0U);
  EXPECT_GT(unreadable(Unreadable::kOpcode), 0U);
  EXPECT_GT(unreadable(Unreadable::kPartition), 0U);
  EXPECT_TRUE(arrives(good));
}

TEST(RocePort, DropsPacketsForOtherAddresses) {
  const auto port = open_ring();
  ASSERT_NE(port, nullptr);
  PortQueue& queue = port->queue(0);
  Packet other_mac = packet_to({2, 9, 0, 0, 0, 77});
  Packet other_ip = packet_to(port->facts().mac);
  other_ip.route.target = ipv4(77);
  std::array<Arrival, 4> out;
  for (Packet* packet : {&other_mac, &other_ip}) ASSERT_TRUE(queue.send(*packet, {}));
  queue.flush();
  EXPECT_EQ(queue.receive(out, 0), 0U);
  EXPECT_EQ(queue.counters().other_address, 2U);
  EXPECT_EQ(queue.counters().received_packets, 0U);
}

TEST(RocePort, BorrowsAPayloadUntilTheDeviceFreesIt) {
  const auto port = open_ring();
  ASSERT_NE(port, nullptr);
  PortQueue& queue = port->queue(0);
  const Bytes payload = pattern(2000);
  const std::byte* const begin = payload.data();
  const std::array<Span, 4> spans{
      {{begin, 301}, {begin + 301, 0}, {begin + 301, 1}, {begin + 302, 1698}}};
  Packet packet = packet_to(port->facts().mac);
  ASSERT_TRUE(queue.send(packet, spans));
  EXPECT_EQ(queue.borrowed(), 3U);
  queue.flush();
  std::array<Arrival, 1> out;
  ASSERT_EQ(receive(queue, out), 1U);
  EXPECT_EQ(joined(out[0].payload()), payload);
  // This device hands the sender's buffers to the receiver, so nothing was copied on the way.
  EXPECT_EQ(out[0].payload().size(), 3U);
  EXPECT_EQ(out[0].payload()[0].data, payload.data());
  EXPECT_EQ(queue.borrowed(), 3U);
  out[0] = Arrival{};
  queue.reclaim();
  EXPECT_EQ(queue.borrowed(), 0U);
  EXPECT_EQ(queue.counters().borrowed_packets, 1U);
  EXPECT_EQ(queue.counters().copied_packets, 0U);
}

// Sends a payload of so many bytes and receives it again.
void expect_copied(std::size_t bytes, Payload kind) {
  const auto port = open_ring();
  ASSERT_NE(port, nullptr);
  PortQueue& queue = port->queue(0);
  const Bytes payload = pattern(bytes);
  const Span span{payload.data(), payload.size()};
  Packet packet = packet_to(port->facts().mac);
  ASSERT_TRUE(queue.send(packet, {&span, 1}, kind));
  EXPECT_EQ(queue.borrowed(), 0U);
  EXPECT_EQ(queue.counters().copied_bytes, bytes);
  queue.flush();
  std::array<Arrival, 1> out;
  ASSERT_EQ(receive(queue, out), 1U);
  EXPECT_EQ(joined(out[0].payload()), payload);
}
TEST(RocePort, CopiesPayloadsThatAreNotLent) {
  expect_copied(2000, Payload::kCopied);
}
TEST(RocePort, CopiesSmallPayloads) {
  expect_copied(PortQueue::kCopiedPayload, Payload::kLent);
}

TEST(RocePort, JoinsPayloadsOfManyPieces) {
  const auto port = open_ring();
  ASSERT_NE(port, nullptr);
  PortQueue& queue = port->queue(0);
  const Bytes payload = pattern(1300);
  std::vector<Span> spans;
  for (std::size_t i = 0; i < 13; ++i) spans.push_back({payload.data() + i * 100, 100});
  Packet packet = packet_to(port->facts().mac);
  ASSERT_TRUE(queue.send(packet, spans));
  queue.flush();
  std::array<Arrival, 1> out;
  ASSERT_EQ(receive(queue, out), 1U);
  EXPECT_EQ(out[0].payload().size(), 1U);
  EXPECT_EQ(joined(out[0].payload()), payload);
  EXPECT_EQ(queue.counters().joined, 1U);
  EXPECT_EQ(queue.borrowed(), 0U);
}

TEST(RocePort, RefusesPacketsWithoutRoom) {
  for (const bool may_borrow : {true, false}) {
    const auto port = open_ring(may_borrow);
    ASSERT_NE(port, nullptr);
    PortQueue& queue = port->queue(0);
    const Bytes payload = pattern(2048);
    const Span span{payload.data(), payload.size()};
    std::size_t sent = 0;
    while (sent < 10'000) {
      Packet packet = packet_to(port->facts().mac);
      if (!queue.send(packet, {&span, 1})) break;
      ++sent;
    }
    EXPECT_GT(sent, 64U);
    EXPECT_LT(sent, 10'000U);
    EXPECT_EQ(queue.counters().no_room, 1U);
    // What was queued arrives, and then there is room again.
    std::vector<Arrival> out(sent);
    std::size_t arrived = 0;
    for (int i = 0; i < 1000 && arrived < sent; ++i) {
      queue.flush();
      arrived += queue.receive(std::span(out).subspan(arrived), 0);
    }
    EXPECT_EQ(arrived, sent);
    out.clear();
    Packet packet = packet_to(port->facts().mac);
    EXPECT_TRUE(queue.send(packet, {&span, 1}));
    const Bytes huge(5000);
    const Span too_long{huge.data(), huge.size()};
    EXPECT_FALSE(queue.send(packet, {&too_long, 1}));
    EXPECT_FALSE(queue.send_frame(huge));
  }
}

TEST(RocePort, AnswersAndAsksThroughItsResolver) {
  const auto port = open_ring();
  ASSERT_NE(port, nullptr);
  PortQueue& queue = port->queue(0);
  ResolverOptions options;
  options.mac = port->facts().mac;
  options.addresses = {{.address = ipv4(1)}};
  SharedResolver resolver(options);
  queue.set_resolver(&resolver);
  EXPECT_EQ(resolver.resolve(ipv4(2), 0).reach, Reach::kAsked);
  std::array<Arrival, 4> out;
  EXPECT_EQ(queue.receive(out, 0), 0U);  // queues the request
  EXPECT_EQ(queue.flush(), 0U);
  // The other end of this device is this port, so the request comes from its own MAC.
  EXPECT_EQ(queue.receive(out, 1), 0U);
  EXPECT_EQ(queue.counters().unreadable[static_cast<std::size_t>(Unreadable::kNotRoce)], 1U);
  EXPECT_TRUE(queue.send_frame(arp_request()));
  queue.flush();
  EXPECT_EQ(queue.receive(out, 2), 0U);
  EXPECT_EQ(queue.counters().answers, 1U);
  EXPECT_EQ(resolver.resolve(ipv4(2), 2).mac, (MacAddress{2, 9, 0, 0, 0, 2}));
}

}  // namespace
}  // namespace tally::transport::roce
