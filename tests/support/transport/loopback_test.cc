#include "tests/support/transport/loopback.h"

#include <gtest/gtest.h>

#include <array>

#include "dataplane/transport/contract.h"

namespace tally::transport {
namespace {

class LoopbackTest : public ::testing::TestWithParam<LoopbackConfig::Mode> {
 protected:
  LoopbackTest() : loopback_({.mode = GetParam(), .span_bytes = 16}), memory_(64, std::byte{7}) {
    for (const Peer peer : {0u, 1u}) {
      loopback_.connect(peer);
      loopback_.add_region(peer, 1, memory_);
    }
  }

  static bool direct() { return GetParam() == LoopbackConfig::Mode::kDirect; }

  void pull(Peer peer, std::uint64_t user, std::uint64_t offset = 8) {
    const Pull pull{{peer, 1, offset, 40}, user};
    loopback_.pull({&pull, 1});
  }
  // Polls until there is an answer.
  Pulled pulled() {
    Pulled pulled;
    for (int i = 0; i < 2; ++i) {
      if (loopback_.pulled({&pulled, 1}) == 1) return pulled;
    }
    ADD_FAILURE() << "no answer";
    return pulled;
  }
  Pushed pushed() {
    Pushed pushed;
    for (int i = 0; i < 2; ++i) {
      if (loopback_.pushed({&pushed, 1}) == 1) return pushed;
    }
    ADD_FAILURE() << "no answer";
    return pushed;
  }

  Loopback loopback_;
  std::vector<std::byte> memory_;
};

TEST_P(LoopbackTest, AViewIsThereUntilItIsReleasedAndSpoiltAfterwards) {
  pull(0, 42);
  const Pulled answer = pulled();
  EXPECT_EQ(answer.user, 42u);
  ASSERT_EQ(answer.view.size(), 3u) << "in pieces of 16 bytes";
  EXPECT_EQ(answer.view[2].bytes, 8u);
  EXPECT_EQ(answer.view[0].data[0], std::byte{7});
  EXPECT_EQ(answer.view[0].data == memory_.data() + 8, direct());
  EXPECT_EQ(loopback_.views_held(), 1u);
  loopback_.release(answer.handle);
  EXPECT_EQ(answer.view[0].data, nullptr);
  EXPECT_EQ(loopback_.views_held(), 0u);
  EXPECT_THROW(loopback_.release(answer.handle), ContractViolation);
  pull(0, 43);
  const Pulled next = pulled();
  EXPECT_NE(next.handle, answer.handle) << "an old handle is told from a new one";
  EXPECT_THROW(loopback_.release(answer.handle), ContractViolation);
  loopback_.release(next.handle);
}

TEST_P(LoopbackTest, WhatIsOutstandingWithALostPeerIsAnswered) {
  pull(0, 1);
  pull(1, 2);
  loopback_.drop(0);
  EXPECT_EQ(pulled().status, Status::kPeerLost);
  const Pulled other = pulled();
  EXPECT_EQ(other.status, Status::kOk);
  loopback_.release(other.handle);
  Peer lost = kNoPeer;
  ASSERT_EQ(loopback_.lost({&lost, 1}), 1u);
  EXPECT_EQ(lost, 0u);
  EXPECT_EQ(loopback_.lost({&lost, 1}), 0u) << "each once";
  EXPECT_THROW(pull(0, 3), ContractViolation);
  const Message message{0, {}};
  EXPECT_THROW(loopback_.complete({&message, 1}), ContractViolation);
}

TEST_P(LoopbackTest, APushPlacesBytesWhenItIsAnswered) {
  std::array<std::byte, 16> source;
  source.fill(std::byte{9});
  Landing landing{{1, 1, 32, 16}, nullptr};
  loopback_.locate({&landing, 1});
  EXPECT_EQ(landing.direct != nullptr, direct());
  const Push push{landing, source.data(), 5};
  loopback_.push({&push, 1});
  EXPECT_EQ(memory_[32], std::byte{7});
  const Pushed answer = pushed();
  EXPECT_EQ(answer.user, 5u);
  EXPECT_EQ(memory_[32], direct() ? std::byte{7} : std::byte{9});
  EXPECT_EQ(memory_[48], std::byte{7});
}

TEST_P(LoopbackTest, StoresAreOpenedAndClosedInTurn) {
  const Peer peers[] = {0, 1};
  EXPECT_THROW(loopback_.end_access(peers), ContractViolation);
  EXPECT_EQ(loopback_.begin_access(peers), kNoPeer);
  EXPECT_THROW(static_cast<void>(loopback_.begin_access(peers)), ContractViolation);
  loopback_.end_access(peers);
  loopback_.fence(1);
  EXPECT_EQ(loopback_.begin_access(peers), 1u);
  EXPECT_THROW(loopback_.end_access(peers), ContractViolation) << "there is nothing to close";
}

TEST_P(LoopbackTest, ARangeIsWithinItsRegion) {
  EXPECT_TRUE(loopback_.covers({0, 1, 0, 64}));
  EXPECT_TRUE(loopback_.covers({0, 1, 63, 1}));
  EXPECT_FALSE(loopback_.covers({0, 1, 63, 2}));
  EXPECT_FALSE(loopback_.covers({0, 1, UINT64_MAX, 2}));
  EXPECT_FALSE(loopback_.covers({0, 2, 0, 1}));
  loopback_.remove_region(0, 1);
  EXPECT_FALSE(loopback_.covers({0, 1, 0, 1}));
  pull(0, 1);
  EXPECT_EQ(pulled().status, Status::kBadRegion);
}

TEST_P(LoopbackTest, MessagesGoBothWays) {
  RingEntry entry{};
  entry.bytes[0] = std::byte{1};
  EXPECT_TRUE(loopback_.arm());
  loopback_.send(1, entry);
  EXPECT_FALSE(loopback_.arm());
  std::array<Received, 4> received;
  ASSERT_EQ(loopback_.receive(received), 1u);
  EXPECT_EQ(received[0].peer, 1u);
  const Message message{1, entry};
  loopback_.complete({&message, 1});
  std::array<RingEntry, 4> taken;
  EXPECT_EQ(loopback_.take(0, taken), 0u);
  EXPECT_EQ(loopback_.take(1, taken), 1u);
  EXPECT_EQ(loopback_.take(1, taken), 0u);
}

INSTANTIATE_TEST_SUITE_P(Modes, LoopbackTest,
                         ::testing::Values(LoopbackConfig::Mode::kDirect,
                                           LoopbackConfig::Mode::kStaged),
                         [](const auto& param) { return name_of(param.param); });

}  // namespace
}  // namespace tally::transport
