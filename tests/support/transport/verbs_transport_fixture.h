// A fixture for tests of the transport: a transport and two clients that the fixture makes, over
// the devices of FakeVerbs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "dataplane/transport/verbs/verbs_transport.h"
#include "dataplane/wire/notice.h"
#include "tests/support/transport/fake_verbs.h"

namespace tally::transport::verbs {

inline constexpr std::size_t kMemory = 300'000;
inline constexpr std::uint32_t kCredit = 32;

// A worker's end.
class Client {
 public:
  Client(FakeVerbs& api, const std::string& name)
      : memory(kMemory),
        api_(api),
        device_(Device::open(api, {.device = name, .host = {}}).value()),
        queue_(api, api.create_cq(&device_->context(), 256, nullptr)),
        pair(QueuePair::make(*device_, *queue_.get(), {64, 64}, 0, kNodesAccess).value()) {
    region_ = device_->expose(memory.data(), memory.size(), kForTheNode).value();
    entries_key_ = device_->expose(entries.data(), sizeof entries, kForItself).value();
    ibv_sge piece{reinterpret_cast<std::uintptr_t>(entries[0].bytes), sizeof(RingEntry),
                  entries_key_->lkey};
    ibv_recv_wr receive{};
    receive.sg_list = &piece;
    receive.num_sge = 1;
    for (std::uint32_t i = 0; i < pair.sizes().receives; ++i) {
      EXPECT_EQ(pair.receive(&receive), 0);  // all receives have the same buffer
    }
  }

  onesided::Region region() const {
    return {reinterpret_cast<std::uintptr_t>(memory.data()), memory.size(), region_->rkey};
  }
  void send(std::uint8_t content, std::uint32_t bytes = sizeof(RingEntry)) {
    entries[1].bytes[0] = std::byte{content};
    ibv_sge piece{reinterpret_cast<std::uintptr_t>(entries[1].bytes), bytes, entries_key_->lkey};
    ibv_send_wr request{};
    request.opcode = IBV_WR_SEND;
    request.sg_list = &piece;
    request.num_sge = bytes > 0 ? 1 : 0;
    EXPECT_EQ(pair.send(&request), 0);
  }
  // Sends so many bytes from the front of memory as one message.
  void send_bytes(std::uint32_t bytes, ibv_wr_opcode opcode) {
    ibv_sge piece{reinterpret_cast<std::uintptr_t>(memory.data()), bytes, region_->lkey};
    ibv_send_wr request{};
    request.opcode = opcode;
    request.sg_list = &piece;
    request.num_sge = 1;
    EXPECT_EQ(pair.send(&request), 0);
  }
  // Sends a notice with the contribution behind it.
  void send(const wire::Notice& notice, std::span<const std::byte> contribution) {
    std::byte* message = memory.data() + kMemory - 4096;
    const RingEntry entry = wire::encode(notice);
    std::memcpy(message, entry.bytes, sizeof entry.bytes);
    std::copy(contribution.begin(), contribution.end(), message + sizeof entry.bytes);
    ibv_sge piece{reinterpret_cast<std::uintptr_t>(message),
                  static_cast<std::uint32_t>(sizeof entry.bytes + contribution.size()),
                  region_->lkey};
    ibv_send_wr request{};
    request.opcode = IBV_WR_SEND;
    request.sg_list = &piece;
    request.num_sge = 1;
    EXPECT_EQ(pair.send(&request), 0);
  }
  // Takes all work completions, so that the client's queues have room again.
  void drain() {
    std::array<ibv_wc, 64> taken;
    while (api_.poll_cq(queue_.get(), 64, taken.data()) > 0) continue;
  }
  void withdraw() { static_cast<void>(region_.reset()); }
  ibv_cq* queue() const { return queue_.get(); }

  std::vector<std::byte> memory;
  std::array<RingEntry, 2> entries{};

 private:
  FakeVerbs& api_;
  std::unique_ptr<Device> device_;
  CompletionQueue queue_;
  MemoryRegion region_;
  MemoryRegion entries_key_;

 public:
  QueuePair pair;
};

class VerbsTransportTest : public ::testing::Test {
 protected:
  static constexpr Peer kFirst = 3;
  static constexpr Peer kSecond = 5;

  VerbsTransportTest() {
    auto opened = VerbsTransport::open(api_, options());
    if (!opened) throw std::runtime_error(opened.error().message);
    transport_ = std::move(opened).value();
    std::iota(reinterpret_cast<std::uint8_t*>(first_.memory.data()),
              reinterpret_cast<std::uint8_t*>(first_.memory.data()) + kMemory, 0);
    join(kFirst, first_);
    join(kSecond, second_);
  }

  TransportOptions options() {
    return {.device = {.device = "node", .host = {}},
            .credit = kCredit,
            .landing_bytes = 1 << 20,
            .tiles = tiles_};
  }
  Result<Address> attach(Peer peer, Client& client) {
    auto made = transport_->connect(peer, client.pair.address(), kCredit);
    if (!made) return made.error();
    return transport_->attach(peer, std::move(made).value());
  }
  void join(Peer peer, Client& client) {
    const auto address = attach(peer, client);
    ASSERT_TRUE(address.ok()) << address.error().message;
    ASSERT_TRUE(client.pair.connect(*address).ok());
    transport_->add_region(peer, 1, client.region());
  }
  std::vector<Received> notices() {
    std::array<Received, 64> some;
    const std::size_t count = transport_->receive(some);
    return {some.begin(), some.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  Pulled pull(const Range& range) {
    const Pull wanted{range, 9};
    transport_->pull({&wanted, 1});
    notices();
    Pulled answer{0, Status::kInternal, {}, 0};
    EXPECT_EQ(transport_->pulled({&answer, 1}), 1U);
    return answer;
  }
  Pushed push(const Range& range, const std::byte* source) {
    const Push wanted{{range, nullptr}, source, 8};
    transport_->push({&wanted, 1});
    notices();
    Pushed answer{0, Status::kInternal};
    EXPECT_EQ(transport_->pushed({&answer, 1}), 1U);
    return answer;
  }
  std::vector<Peer> lost() {
    notices();
    std::array<Peer, 8> some{};
    const std::size_t count = transport_->lost(some);
    return {some.begin(), some.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  // Expects that a pull, a push and a notice of this peer work.
  void expect_served(Peer peer, Client& client) {
    const Pulled pulled = pull({peer, 1, 4097, 70'000});
    ASSERT_EQ(pulled.status, Status::kOk);
    EXPECT_EQ(std::memcmp(pulled.view[0].data, client.memory.data() + 4097, 70'000), 0);
    transport_->release(pulled.handle);
    EXPECT_EQ(push({peer, 1, 1, 100}, tiles_.data()).status, Status::kOk);
    client.send(77);
    const auto come = notices();
    ASSERT_EQ(come.size(), 1U);
    EXPECT_EQ(come[0].peer, peer);
    EXPECT_EQ(come[0].message.bytes[0], std::byte{77});
    client.drain();
  }

  FakeVerbs api_{{{.name = "node"}, {.name = "one"}, {.name = "two"}}};
  std::vector<std::byte> tiles_ = std::vector<std::byte>(1 << 16, std::byte{42});
  Client first_{api_, "one"};
  Client second_{api_, "two"};
  std::size_t clients_ = api_.objects();
  std::unique_ptr<VerbsTransport> transport_;
};

}  // namespace tally::transport::verbs
