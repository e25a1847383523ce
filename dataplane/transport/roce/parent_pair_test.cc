// A child node's transport and its parent's, with a cable between them.
#include "dataplane/transport/roce/parent_pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "dataplane/transport/roce/roce_transport.h"
#include "tests/support/roce/soft_worker.h"

namespace tally::transport::roce {
namespace {

using tally::testing::FakeLink;
using ::testing::HasSubstr;

constexpr Peer kChild = 2;
constexpr std::uint32_t kBufferRegion = 7;
constexpr std::uint32_t kKey = 0xabc;
constexpr std::uint32_t kCredit = 8;
constexpr std::size_t kBufferBytes = 100'000;

constexpr IpAddress address(std::uint8_t host) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 9, 0, host};
}

RingEntry numbered(int number) {
  RingEntry message{};
  std::memcpy(message.bytes, &number, sizeof number);
  return message;
}

int number_of(const RingEntry& message) {
  int number = 0;
  std::memcpy(&number, message.bytes, sizeof number);
  return number;
}

class ParentPairTest : public ::testing::Test {
 public:
  struct Node {
    explicit Node(std::uint8_t host) : memory(kBufferBytes) {
      auto made = std::make_unique<FakeLink>();
      link = made.get();
      TransportOptions options;
      options.address = address(host);
      options.mtu = 1024;
      options.landing_bytes = 1 << 20;
      options.tiles = memory;
      options.ack_timeout = kMillisecond;
      transport.emplace(std::move(made), options);
    }
    FakeLink* link = nullptr;
    std::vector<std::byte> memory;
    std::optional<RoceTransport> transport;
  };

  ParentPairTest() {
    for (std::size_t i = 0; i < kBufferBytes; ++i) {
      child.memory[i] = static_cast<std::byte>(i * 5 + i / 1000);
    }
    own = child.transport->reserve();
    const auto theirs = parent.transport->attach(kChild, own, kCredit);
    EXPECT_TRUE(theirs.ok());
    pair = child.transport->connect(own, *theirs, kCredit).value();
    pair->expose(child.memory, kKey);
    add_region(kKey);
  }
  void add_region(std::uint32_t key) {
    parent.transport->add_region(
        kChild, kBufferRegion,
        {reinterpret_cast<std::uintptr_t>(child.memory.data()), kBufferBytes, key});
  }
  static void carry(Node& from, Node& to) {
    auto& sent = from.link->from_node;
    for (; !sent.empty(); sent.pop_front()) to.link->to_node.push_back(std::move(sent.front()));
  }
  void run_until(const std::function<bool()>& done) {
    for (const Nanos end = monotonic_now() + 20 * kSecond; !done() && monotonic_now() < end;) {
      for (Node* const node : {&child, &parent}) {
        Received received;
        while (node->transport->receive({&received, 1}) == 1) notices.push_back(received);
      }
      Pulled got;
      while (parent.transport->pulled({&got, 1}) == 1) pulled.push_back(got);
      Pushed placed;
      while (parent.transport->pushed({&placed, 1}) == 1) pushed.push_back(placed);
      if (is_cut) child.link->from_node.clear();
      carry(child, parent);
      carry(parent, child);
    }
    EXPECT_TRUE(done()) << "not in time";
  }
  void pull(std::uint64_t offset, std::uint64_t bytes) {
    const Pull one{{kChild, kBufferRegion, offset, bytes}, offset};
    parent.transport->pull({&one, 1});
  }

  Node child{1};
  Node parent{2};
  verbs::Address own;
  ParentPair* pair = nullptr;
  bool is_cut = false;  // nothing comes from the child
  std::vector<Received> notices;
  std::vector<Pulled> pulled;
  std::vector<Pushed> pushed;
};

TEST_F(ParentPairTest, ItsProbeFindsTheParent) {
  EXPECT_EQ(pair->state(), ParentPair::State::kNew);
  pair->probe(4096);
  run_until([&] { return pair->state() != ParentPair::State::kNew; });
  EXPECT_EQ(pair->state(), ParentPair::State::kAnswered);
  EXPECT_TRUE(notices.empty());
}

TEST_F(ParentPairTest, ItIsLostWithoutAnswers) {
  is_cut = true;
  pair->probe(0);
  run_until([&] { return pair->state() != ParentPair::State::kNew; });
  EXPECT_EQ(pair->state(), ParentPair::State::kLost);
  EXPECT_THAT(pair->why_lost(), HasSubstr("does not answer"));
  pair->send_up(numbered(1));
}

// More than the queue pair takes at a time.
TEST_F(ParentPairTest, MessagesGoUpInOrder) {
  constexpr int kMessages = 300;
  for (int i = 0; i < kMessages; ++i) pair->send_up(numbered(i));
  run_until([&] { return notices.size() == kMessages; });
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_EQ(number_of(notices[static_cast<std::size_t>(i)].message), i);
    ASSERT_EQ(notices[static_cast<std::size_t>(i)].peer, kChild);
  }
}

TEST_F(ParentPairTest, MessagesComeDown) {
  for (int i = 0; i < 3; ++i) {
    const Message message{kChild, numbered(i)};
    parent.transport->complete({&message, 1});
  }
  run_until([&] { return pair->has_messages(); });
  std::array<RingEntry, 2> got{};
  std::vector<int> numbers;
  run_until([&] {
    const std::size_t count = pair->receive(got);
    for (std::size_t i = 0; i < count; ++i) numbers.push_back(number_of(got[i]));
    return numbers.size() == 3;
  });
  EXPECT_THAT(numbers, ::testing::ElementsAre(0, 1, 2));
  EXPECT_FALSE(pair->has_messages());
}

TEST_F(ParentPairTest, AParentThatSendsMoreThanItsCreditIsLost) {
  for (int i = 0; i < 50 && pair->state() == ParentPair::State::kNew; ++i) {
    const Message message{kChild, numbered(i)};
    parent.transport->complete({&message, 1});
    run_until([&, turns = 0]() mutable { return ++turns > 20; });
  }
  EXPECT_EQ(pair->state(), ParentPair::State::kLost);
  EXPECT_THAT(pair->why_lost(), HasSubstr("credit"));
}

TEST_F(ParentPairTest, TheParentReadsAndWritesWhatIsExposed) {
  pull(1000, 50'000);
  run_until([&] { return !pulled.empty(); });
  ASSERT_EQ(pulled[0].status, Status::kOk);
  std::size_t at = 1000;
  for (const Span& piece : pulled[0].view) {
    EXPECT_EQ(std::memcmp(piece.data, child.memory.data() + at, piece.bytes), 0);
    at += piece.bytes;
  }
  EXPECT_EQ(at, 51'000U);
  parent.transport->release(pulled[0].handle);
  std::fill(parent.memory.begin(), parent.memory.end(), std::byte{77});
  const std::byte before = child.memory[69'999], after = child.memory[90'000];
  const Push one{{{kChild, kBufferRegion, 70'000, 20'000}, nullptr, 0, 1}, parent.memory.data(), 5};
  parent.transport->push({&one, 1});
  run_until([&] { return !pushed.empty(); });
  EXPECT_EQ(pushed[0].status, Status::kOk);
  EXPECT_EQ(std::memcmp(child.memory.data() + 70'000, parent.memory.data(), 20'000), 0);
  EXPECT_EQ(child.memory[69'999], before);
  EXPECT_EQ(child.memory[90'000], after);
}

// The answer has more packets than a turn sends, and nothing else wakes the shard.
TEST_F(ParentPairTest, ALongAnswerLeavesWithoutMorePackets) {
  pull(0, 50 * 1024);
  carry(parent, child);
  for (int turn = 0; turn < 5; ++turn) {
    Received received;
    EXPECT_EQ(child.transport->receive({&received, 1}), 0U);
  }
  EXPECT_EQ(child.link->from_node.size(), 50U);
}

TEST_F(ParentPairTest, OtherKeysReachNothing) {
  parent.transport->remove_region(kChild, kBufferRegion);
  add_region(kKey + 1);
  pull(0, 100);
  run_until([&] { return !pulled.empty(); });
  EXPECT_NE(pulled[0].status, Status::kOk);
  EXPECT_EQ(pair->state(), ParentPair::State::kLost);
}

TEST(ExposedMemory, IsReachedInsideOfItsBoundsAlone) {
  std::vector<std::byte> bytes(100);
  ExposedMemory memory;
  memory.expose(bytes, kKey);
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  EXPECT_EQ(memory.find(kKey, begin, 100, Right::kRead), bytes.data());
  EXPECT_EQ(memory.find(kKey, begin + 60, 40, Right::kWrite), bytes.data() + 60);
  EXPECT_EQ(memory.find(kKey, begin - 1, 10, Right::kRead), nullptr);
  EXPECT_EQ(memory.find(kKey, begin + 60, 41, Right::kRead), nullptr);
  EXPECT_EQ(memory.find(kKey, begin + 60, UINT64_MAX, Right::kRead), nullptr);
  EXPECT_EQ(memory.find(kKey + 1, begin, 10, Right::kRead), nullptr);
}

TEST_F(ParentPairTest, NothingReachesItAfterItsEnd) {
  child.transport->remove(own);
  pull(0, 100);
  run_until([&] { return !pulled.empty(); });
  EXPECT_EQ(pulled[0].status, Status::kPeerLost);
  EXPECT_GT(child.transport->counters().strangers, 0U);
}

}  // namespace
}  // namespace tally::transport::roce
