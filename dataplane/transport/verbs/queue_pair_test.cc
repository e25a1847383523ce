// A connection's making: what is exchanged, and every step that can fail.
#include "dataplane/transport/verbs/queue_pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "base/system/memory_limit.h"
#include "tests/support/transport/fake_verbs.h"

namespace tally::transport::verbs {
namespace {

using ::testing::HasSubstr;

class VerbsQueuePair : public ::testing::Test {
 protected:
  Result<QueuePair> make(std::uint32_t inline_bytes = 64) {
    return QueuePair::make(*device_, *queue_.get(), {16, 16}, inline_bytes, kNodesAccess);
  }

  FakeVerbs api_;
  std::unique_ptr<Device> device_ = Device::open(api_, {}).value();
  CompletionQueue queue_{api_, api_.create_cq(&device_->context(), 64, nullptr)};
};

TEST_F(VerbsQueuePair, AddressesSurviveTheJourney) {
  const auto pair = make();
  const Address address = pair.value().address();
  const std::string text = to_hex(address);
  const auto read = from_hex(text);
  ASSERT_TRUE(read);
  EXPECT_EQ(to_hex(*read), text);
  EXPECT_EQ(read->number, pair.value().number());
  EXPECT_EQ(read->reads_in, 16);
  EXPECT_EQ(to_text(read->gid), "10.0.0.1");
}

TEST_F(VerbsQueuePair, WhatCannotBeAnAddressIsRefused) {
  const std::string good = to_hex(make().value().address());
  EXPECT_FALSE(from_hex(""));
  EXPECT_FALSE(from_hex(good + "0"));
  EXPECT_FALSE(from_hex(good.substr(1)));
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = 'x';
    EXPECT_FALSE(from_hex(bad)) << i;
  }
  Address wrong = *from_hex(good);
  wrong.mtu = 6;
  EXPECT_FALSE(from_hex(to_hex(wrong)));
  wrong = *from_hex(good);
  wrong.number = 1 << 24;
  EXPECT_FALSE(from_hex(to_hex(wrong)));
  wrong = *from_hex(good);
  wrong.reads_in = 0;
  EXPECT_FALSE(from_hex(to_hex(wrong)));
}

TEST_F(VerbsQueuePair, DoesWithoutInlineSends) {
  auto with = make(256);
  EXPECT_TRUE(with.value().can_inline());
  auto without = make(512);
  ASSERT_TRUE(without.ok());
  EXPECT_FALSE(without.value().can_inline());
}

TEST_F(VerbsQueuePair, EveryStepThatFailsIsNamedAndLeavesNothing) {
  const std::size_t before = api_.objects();
  api_.fail(Call::kPair, ENOMEM, 0, 2);  // it is tried without inline sends too
  auto none = make();
  EXPECT_THAT(none.error().message, HasSubstr("a queue pair of 16 sends and 16 receives on fake0"));
  EXPECT_THAT(none.error().message, HasSubstr(memory_limit()));
  api_.fail(Call::kModify, EINVAL);
  auto refused = make();
  EXPECT_THAT(refused.error().message, HasSubstr("cannot be brought to INIT"));
  EXPECT_EQ(api_.objects(), before);

  const Address peer = make().value().address();
  for (const auto& [step, name] : {std::pair{1, "RTR"}, std::pair{2, "RTS"}}) {
    api_.fail(Call::kModify, ETIMEDOUT, step);
    auto pair = make();
    ASSERT_TRUE(pair.ok());
    const auto connected = pair.value().connect(peer);
    EXPECT_THAT(connected.error().message, HasSubstr(std::string("cannot be brought to ") + name));
  }
  EXPECT_EQ(api_.objects(), before);
}

TEST_F(VerbsQueuePair, AnEndThatTheDeviceRefusesIsTriedAgain) {
  auto pair = make();
  api_.fail(Call::kDestroyPair, EBUSY);
  EXPECT_FALSE(pair.value().end());
  EXPECT_TRUE(pair.value());
  EXPECT_TRUE(pair.value().end());
  EXPECT_FALSE(pair.value());
}

TEST_F(VerbsQueuePair, OfADeviceThatIsGoneNothingIsLeftToEnd) {
  auto pair = make();
  api_.fail(Call::kDestroyPair, EIO);
  EXPECT_TRUE(pair.value().end());
  EXPECT_FALSE(pair.value());
}

TEST_F(VerbsQueuePair, RoceAndInfiniBandDoNotMeet) {
  auto pair = make();
  Address peer = pair.value().address();
  peer.ethernet = 0;
  EXPECT_EQ(pair.value().connect(peer).status(), Status::kUnsupported);
}

TEST_F(VerbsQueuePair, ReadsAreWhatBothEndsAllow) {
  auto pair = make();
  Address peer = pair.value().address();
  peer.reads_in = 3;
  ASSERT_TRUE(pair.value().connect(peer).ok());
  EXPECT_EQ(pair.value().reads_out(), 3);
}

TEST_F(VerbsQueuePair, PacketsAreAsLongAsBothEndsAllow) {
  const auto less = Device::open(api_, {.mtu = 1024}).value();
  auto one = make().value();
  auto other = QueuePair::make(*less, *queue_.get(), {16, 16}, 0, kNodesAccess).value();
  ASSERT_TRUE(one.connect(other.address()).ok());
  ASSERT_TRUE(other.connect(one.address()).ok());
  EXPECT_EQ(one.mtu(), 1024U);
  EXPECT_EQ(other.mtu(), 1024U);
}

// The devices refuse a connection that takes more than either has.
TEST(VerbsReads, AreNoMoreThanTheWeakerDeviceAnswers) {
  FakeVerbs api({{.name = "strong", .max_reads = 16}, {.name = "weak", .max_reads = 4}});
  const auto strong = Device::open(api, {.device = "strong", .host = {}}).value();
  const auto weak = Device::open(api, {.device = "weak", .host = {}}).value();
  const CompletionQueue queue(api, api.create_cq(&strong->context(), 64, nullptr));
  auto one = QueuePair::make(*strong, *queue.get(), {16, 16}, 0, kNodesAccess).value();
  auto other = QueuePair::make(*weak, *queue.get(), {16, 16}, 0, kNodesAccess).value();
  EXPECT_TRUE(one.connect(other.address()).ok());
  EXPECT_TRUE(other.connect(one.address()).ok());
  EXPECT_EQ(one.reads_out(), 4);
  EXPECT_EQ(other.reads_out(), 4);
}

TEST_F(VerbsQueuePair, IsAsPatientAsItsDeviceIsToBe) {
  auto usual = make();
  ASSERT_TRUE(usual.value().connect(usual.value().address()).ok());
  EXPECT_EQ(api_.last_ack_timeout(), kAckTimeout);
  const auto patient = Device::open(api_, {.ack_timeout = 18}).value();
  auto pair = QueuePair::make(*patient, *queue_.get(), {16, 16}, 64, kNodesAccess);
  ASSERT_TRUE(pair.value().connect(pair.value().address()).ok());
  EXPECT_EQ(api_.last_ack_timeout(), 18);
}

TEST(VerbsWords, EveryFailureHasSome) {
  for (int status = IBV_WC_LOC_LEN_ERR; status <= IBV_WC_GENERAL_ERR; ++status) {
    EXPECT_FALSE(to_text(static_cast<ibv_wc_status>(status)).empty());
  }
  EXPECT_THAT(to_text(IBV_WC_RETRY_EXC_ERR), HasSubstr("does not answer"));
}

}  // namespace
}  // namespace tally::transport::verbs
