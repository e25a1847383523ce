#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "dataplane/transport/roce/port/pair_numbers.h"
#include "dataplane/transport/roce/port/port.h"
#include "tests/support/roce/ports.h"

namespace tally::transport::roce {
namespace {

// Drivers do not return all names of a port that is closed, so each has a name of its own.
std::string unique(const std::string& name) {
  static int number = 0;
  return name + std::to_string(number++);
}

// Two ports of one process, connected by shared memory.
struct Pair {
  // Has no ports when something failed.
  static Pair connect(PortOptions server, PortOptions client, std::uint32_t receive_buffer_bytes) {
    server.receive_buffer_bytes = client.receive_buffer_bytes = receive_buffer_bytes;
    Pair pair{.server = open(server), .client = open(client)};
    if (pair.server == nullptr || pair.client == nullptr) return {};
    const Nanos end = monotonic_now() + 10 * kSecond;
    while (!(pair.server->link().is_up && pair.client->link().is_up)) {
      if (monotonic_now() > end) return {};
    }
    return pair;
  }

  void exchange(bool joins) const {
    send_all_opcodes(client->queue(0), server->queue(0), server->facts().mac);
    send_all_opcodes(server->queue(0), client->queue(0), client->facts().mac);
    for (Port* port : {server.get(), client.get()}) {
      PortQueue& queue = port->queue(0);
      queue.reclaim();
      EXPECT_GT(queue.counters().borrowed_packets, 0U);
      EXPECT_EQ(queue.counters().joined > 0, joins);
      if (port->facts().can_reclaim) {
        EXPECT_EQ(queue.borrowed(), 0U);
      }
    }
  }

  std::unique_ptr<Port> server;
  std::unique_ptr<Port> client;
};

PortOptions memif(const std::string& role, const std::string& mac, const std::string& socket) {
  PortOptions options =
      small(unique("net_memif") + ",role=" + role + ",id=1,mac=" + mac +
            ",socket-abstract=yes,socket=tally-" + std::to_string(::getpid()) + socket);
  options.queues = 2;
  return options;
}

// Parameter: bytes of a receive buffer.
class RoceMemif : public testing::TestWithParam<std::uint32_t> {
 protected:
  void SetUp() override {
    const std::string socket = unique("roce");
    pair_ = Pair::connect(memif("server", "02:09:00:00:00:01", socket),
                          memif("client", "02:09:00:00:00:02", socket), GetParam());
    ASSERT_NE(pair_.server, nullptr);
  }

  Pair pair_;
};

// The driver of the end that a virtual machine's host has, with the driver of a guest.
class RoceVhost : public testing::TestWithParam<std::uint32_t> {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + unique("roce-" + std::to_string(::getpid()) + "-");
    PortOptions guest =
        small(unique("net_virtio_user") + ",path=" + path_ + ",queues=1,mac=02:09:00:00:00:02");
    guest.receive_entries = guest.transmit_entries = 256;  // as the ring of the device
    pair_ = Pair::connect(small(unique("net_vhost") + ",iface=" + path_ + ",queues=1"), guest,
                          GetParam());
    ASSERT_NE(pair_.server, nullptr);
  }
  void TearDown() override {
    pair_.client.reset();
    pair_.server.reset();
    ::unlink(path_.c_str());
  }

  std::string path_;
  Pair pair_;
};

TEST_P(RoceMemif, PacketsOfAllOpcodesArriveAsTheyAreSent) {
  EXPECT_EQ(pair_.server->facts().driver, "net_memif");
  EXPECT_TRUE(pair_.server->facts().can_reclaim);
  EXPECT_EQ(pair_.server->facts().mac, (MacAddress{2, 9, 0, 0, 0, 1}));
  EXPECT_EQ(pair_.client->facts().mac, (MacAddress{2, 9, 0, 0, 0, 2}));
  pair_.exchange(GetParam() == 256);
}

// So each header, payload and ICRC crosses the end of a small buffer in every way.
TEST_P(RoceMemif, PacketsOfAllLengthsArriveAsTheyAreSent) {
  PortQueue& from = pair_.client->queue(0);
  PortQueue& to = pair_.server->queue(0);
  std::array<Arrival, 1> out;
  for (std::size_t bytes = 0; bytes < 2000; ++bytes) {  // goes around the ring
    const Bytes payload = pattern(bytes, bytes);
    const Span span{payload.data(), payload.size()};
    Packet packet = packet_to(pair_.server->facts().mac);
    ASSERT_TRUE(from.send(packet, {&span, 1}));
    from.flush();
    ASSERT_EQ(receive(to, out), 1U) << bytes;
    ASSERT_EQ(joined(out[0].payload()), payload) << bytes;
  }
  EXPECT_EQ(to.counters().wrong_icrc, 0U);
}

TEST_P(RoceMemif, QueuesAreIndependent) {
  Packet packet = packet_to(pair_.server->facts().mac);
  packet.pair = numbers_of(1, 2).first;
  PortQueue& first = pair_.server->queue(0);
  PortQueue& second = pair_.server->queue(1);
  const std::uint64_t before = first.counters().received_packets;
  ASSERT_TRUE(pair_.client->queue(1).send(packet, {}));
  pair_.client->queue(1).flush();
  std::array<Arrival, 1> out;
  ASSERT_EQ(receive(second, out), 1U);
  EXPECT_EQ(first.counters().received_packets, before);
  EXPECT_EQ(second.counters().received_packets, 1U);
  EXPECT_EQ(second.counters().wrong_queue, 0U);
}

// memif has no filter, so the sender decides which queue gets a packet.
TEST_P(RoceMemif, APacketInTheWrongQueueGetsToTheQueueOfItsPair) {
  EXPECT_FALSE(pair_.server->facts().has_steering);
  PortQueue& from = pair_.client->queue(0);
  PortQueue& wrong = pair_.server->queue(0);
  PortQueue& right = pair_.server->queue(1);
  const Bytes payload = pattern(1000);
  const Span span{payload.data(), payload.size()};
  Packet packet = packet_to(pair_.server->facts().mac);
  packet.pair = numbers_of(1, 2).first + 5;
  ASSERT_TRUE(from.send(packet, {&span, 1}, Payload::kCopied));
  from.flush();
  std::array<Arrival, 4> out;
  const Nanos end = monotonic_now() + 5 * kSecond;
  while (wrong.counters().wrong_queue == 0 && monotonic_now() < end) {
    EXPECT_EQ(wrong.receive(out, monotonic_now()), 0U);
  }
  ASSERT_EQ(right.receive(out, monotonic_now()), 1U);
  expect_same(packet, out[0]);
  EXPECT_EQ(joined(out[0].payload()), payload);
  EXPECT_EQ(wrong.counters().received_packets, 0U);
  EXPECT_EQ(wrong.counters().not_passed_on, 0U);
  EXPECT_EQ(right.counters().wrong_queue, 0U);
}

TEST_P(RoceMemif, WhatTheRightQueueDoesNotTakeIsDroppedAndCounted) {
  PortQueue& from = pair_.client->queue(0);
  PortQueue& wrong = pair_.server->queue(0);
  Packet packet = packet_to(pair_.server->facts().mac);
  packet.pair = numbers_of(1, 2).first;
  std::array<Arrival, 4> out;
  const Nanos end = monotonic_now() + 10 * kSecond;
  while (wrong.counters().not_passed_on == 0 && monotonic_now() < end) {
    static_cast<void>(from.send(packet, {}));
    from.flush();
    static_cast<void>(wrong.receive(out, monotonic_now()));
  }
  EXPECT_EQ(wrong.counters().wrong_queue, Handover::kEntries + 1);
  EXPECT_EQ(wrong.counters().not_passed_on, 1U);
}

// One queue answers ARP for all.
TEST_P(RoceMemif, OtherProtocolsInAnyQueueGetToTheFirst) {
  SharedResolver resolver({.mac = pair_.server->facts().mac, .addresses = {{.address = ipv4(1)}}});
  PortQueue& first = pair_.server->queue(0);
  PortQueue& second = pair_.server->queue(1);
  first.set_resolver(&resolver);
  ASSERT_TRUE(pair_.client->queue(1).send_frame(arp_request()));
  pair_.client->queue(1).flush();
  std::array<Arrival, 1> out;
  const Nanos end = monotonic_now() + 5 * kSecond;
  while (first.counters().answers == 0 && monotonic_now() < end) {
    static_cast<void>(second.receive(out, monotonic_now()));
    static_cast<void>(first.receive(out, monotonic_now()));
  }
  EXPECT_EQ(first.counters().answers, 1U);
  EXPECT_EQ(second.counters().wrong_queue, 1U);
  first.set_resolver(nullptr);
}

TEST(RocePairNumbers, BelongToTheirQueue) {
  for (std::uint32_t queues = 1; queues <= 9; ++queues) {
    for (std::uint32_t queue = 0; queue < queues; ++queue) {
      const PairNumbers numbers = numbers_of(queue, queues);
      EXPECT_EQ(queue_of(numbers.first, queues), queue);
      EXPECT_EQ(queue_of(numbers.first + numbers.count - 1, queues), queue);
      EXPECT_LE(numbers.first + numbers.count, 1U << kPairNumberBits);
      EXPECT_GT(numbers.count, (1U << kPairNumberBits) / (2 * queues));
    }
  }
  EXPECT_GE(queue_of((1U << kPairNumberBits) - 1, 3), 3U);
}

TEST(RocePorts, KeepPacketsWhileThereIsNoPeer) {
  const auto port = open(memif("server", "02:09:00:00:00:01", unique("alone")));
  ASSERT_NE(port, nullptr);
  EXPECT_FALSE(port->link().is_up);
  PortQueue& queue = port->queue(0);
  Packet packet = packet_to({2, 9, 0, 0, 0, 2});
  std::size_t sent = 0;
  while (sent < 1000 && queue.send(packet, {})) ++sent;
  EXPECT_EQ(queue.flush(), sent);
  EXPECT_EQ(queue.counters().sent_packets, 0U);
  EXPECT_EQ(queue.counters().no_room, 1U);
}

TEST_P(RoceVhost, PacketsOfAllOpcodesArriveAsTheyAreSent) {
  EXPECT_EQ(pair_.server->facts().driver, "net_vhost");
  EXPECT_TRUE(pair_.server->facts().can_reclaim);
  EXPECT_EQ(pair_.client->facts().driver, "net_virtio_user");
  pair_.exchange(GetParam() == 256);
}

INSTANTIATE_TEST_SUITE_P(BufferSizes, RoceVhost, testing::Values(0U, 256U));
INSTANTIATE_TEST_SUITE_P(BufferSizes, RoceMemif, testing::Values(0U, 256U, 1024U));

}  // namespace
}  // namespace tally::transport::roce
