// Small operations over the transport: contributions that come with their notices, results that go
// with their completions.
#include <gtest/gtest.h>

#include <algorithm>

#include "dataplane/transport/onesided/small_operation.h"
#include "tests/support/transport/fabric_transport_fixture.h"

namespace tally::transport::fabric {
namespace {

class FabricEager : public FabricTransportTest {
 protected:
  // What the shard sees of a notice that the client sends.
  wire::Notice arrived(const wire::Notice& sent, std::span<const std::byte> contribution) {
    wire::Notice read;
    notices_.clear();
    EXPECT_TRUE(until([&] { return client_.send(sent, contribution); }));
    EXPECT_TRUE(until([&] { return !notices_.empty(); }));
    if (!notices_.empty()) {
      EXPECT_EQ(wire::parse(notices_[0].message, read), Status::kOk);
    }
    return read;
  }
  void complete(std::uint32_t cookie, Status status = Status::kOk) {
    const Message message{kPeer, onesided::small_completion(cookie, status)};
    transport_->complete({&message, 1});
  }
  std::size_t answered() {
    std::array<Pushed, 64> answers;
    return transport_->pushed(answers);
  }
  void push(std::uint64_t operation_bytes, std::uint32_t cookie, std::uint64_t offset,
            std::uint64_t bytes) {
    const Push wanted{
        {{kPeer, 1, offset, bytes}, nullptr, operation_bytes, cookie}, tiles_.data(), 8};
    transport_->push({&wanted, 1});
  }
};

TEST_P(FabricEager, AContributionBehindItsNoticeIsNotRead) {
  const std::vector<std::byte> contribution(kEagerBytes, std::byte{9});
  const wire::Notice seen = arrived(onesided::small_notice(7), contribution);
  EXPECT_EQ(seen.in_offset, 0U);
  EXPECT_EQ(seen.out_region, 1U);
  EXPECT_TRUE(transport_->covers({kPeer, seen.in_region, 0, kEagerBytes}));
  EXPECT_FALSE(transport_->covers({kPeer, seen.in_region, 0, kEagerBytes + 1}));
  const Pull wanted{{kPeer, seen.in_region, 100, kEagerBytes - 100}, 9};
  transport_->pull({&wanted, 1});
  Pulled answer;
  ASSERT_EQ(transport_->pulled({&answer, 1}), 1U);  // at once
  ASSERT_EQ(answer.status, Status::kOk);
  ASSERT_EQ(answer.view[0].bytes, kEagerBytes - 100);
  EXPECT_EQ(answer.view[0].data[kEagerBytes - 101], std::byte{9});
  transport_->release(answer.handle);
  complete(7);
  EXPECT_FALSE(transport_->covers({kPeer, seen.in_region, 0, 1}));
}

TEST_P(FabricEager, WhatFindsNoRoomIsReadFromWhereItIs) {
  const std::vector<std::byte> contribution(8, std::byte{9});
  for (std::uint32_t i = 0; i < onesided::Payloads::kMostEach; ++i) {
    EXPECT_NE(arrived(onesided::small_notice(i), contribution).in_region, 1U);
  }
  const wire::Notice seen = arrived(onesided::small_notice(100), contribution);
  EXPECT_EQ(seen.in_region, 1U);
  EXPECT_EQ(seen.in_offset, 5000U);
}

TEST_P(FabricEager, SmallResultsGoWithTheirCompletionInOneMessage) {
  std::fill(tiles_.begin(), tiles_.end(), std::byte{42});
  push(kEagerBytes, 7, 10, 5000);
  push(kEagerBytes, 7, 6000, 16);
  push(kEagerBytes, 8, 0, 1);  // another operation's
  EXPECT_EQ(answered(), 3U);
  complete(7);
  ASSERT_TRUE(until([&] { return !client_.messages.empty(); }));
  const auto message = open_message(client_.messages[0]);
  ASSERT_TRUE(message.has_value());
  wire::Completion completion;
  ASSERT_EQ(wire::parse(message->content, completion), Status::kOk);
  EXPECT_EQ(completion.cookie, 7U);
  std::span<const std::byte> behind = message->behind;
  const auto first = next_result(behind);
  const auto second = next_result(behind);
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(behind.empty());
  const onesided::Region region = client_.region();
  EXPECT_EQ(first->store.key, region.key);
  EXPECT_EQ(first->store.address, region.base + 10);
  EXPECT_EQ(first->bytes.size(), 5000U);
  EXPECT_EQ(first->bytes[4999], std::byte{42});
  EXPECT_EQ(second->store.address, region.base + 6000);
  EXPECT_EQ(second->bytes.size(), 16U);
  complete(8);
  ASSERT_TRUE(until([&] { return client_.messages.size() == 2; }));
}

TEST_P(FabricEager, OfAnOperationThatFailedNothingGoes) {
  push(100, 7, 10, 100);
  EXPECT_EQ(answered(), 1U);
  complete(7, Status::kCancelled);
  ASSERT_TRUE(until([&] { return !client_.messages.empty(); }));
  EXPECT_EQ(client_.messages[0].size(), kMessageBytes);
  // Its memory is free: as much as there is can land.
  Pulled answer;
  ASSERT_TRUE(pull(answer, {kPeer, 1, 0, 300'000}));
  EXPECT_EQ(answer.status, Status::kOk);
  transport_->release(answer.handle);
}

// A message waits for its operation's other tiles, which may wait for landing memory.
TEST_P(FabricEager, EagerResultsTakeNothingFromPulls) {
  push(kEagerBytes, 7, 10, 5000);
  EXPECT_EQ(answered(), 1U);
  std::vector<Pull> pulls(kLanding / 4096, Pull{{kPeer, 1, 0, 4096}, 9});
  transport_->pull(pulls);
  std::vector<Pulled> answers(pulls.size());
  std::size_t count = 0;
  ASSERT_TRUE(until([&] {
    count += transport_->pulled(std::span(answers).subspan(count));
    return count == answers.size();
  }));
  for (const Pulled& answer : answers) transport_->release(answer.handle);
  complete(7);
  ASSERT_TRUE(until([&] { return !client_.messages.empty(); }));
  EXPECT_GT(client_.messages[0].size(), 5000U);
}

// A notice that comes twice is answered at once; the operation goes on.
TEST_P(FabricEager, ADuplicateLeavesTheOperationsResultAlone) {
  const std::vector<std::byte> contribution(8, std::byte{9});
  const wire::Notice seen = arrived(onesided::small_notice(7), contribution);
  EXPECT_EQ(arrived(onesided::small_notice(7), contribution).in_region, 1U);
  push(kEagerBytes, 7, 10, 5000);
  complete(7, Status::kDuplicate);
  EXPECT_TRUE(transport_->covers({kPeer, seen.in_region, 0, 8}));
  complete(7);
  EXPECT_FALSE(transport_->covers({kPeer, seen.in_region, 0, 8}));
  ASSERT_TRUE(until([&] { return client_.messages.size() == 2; }));
  EXPECT_EQ(client_.messages[0].size(), kMessageBytes);
  EXPECT_GT(client_.messages[1].size(), 5000U);
}

TEST_P(FabricEager, WhatIsTooMuchIsWrittenAndAnsweredWhenItStands) {
  std::fill(tiles_.begin(), tiles_.end(), std::byte{42});
  push(kEagerBytes + 1, 7, 10, 100);  // of a larger operation
  EXPECT_EQ(answered(), 0U);
  ASSERT_TRUE(until([&] { return answered() == 1; }));
  EXPECT_EQ(client_.memory[109], std::byte{42});
  // More operations at a time than there may be messages in the making.
  for (std::uint32_t i = 0; i < 20; ++i) push(64, 100 + i, i * 64, 64);
  std::size_t eager = answered();
  EXPECT_GT(eager, 0U);
  EXPECT_LT(eager, 20U);
  ASSERT_TRUE(until([&] { return (eager += answered()) == 20; }));
  for (std::uint32_t i = 0; i < 20; ++i) complete(100 + i);
  ASSERT_TRUE(until([&] { return client_.messages.size() == 20; }));
}

TEST_P(FabricEager, AClientOfBeforeGetsItsResultsWritten) {
  transport_->detach(kPeer);
  const auto name =
      transport_->attach(kPeer, {.job = 2, .name = client_.name(), .secret = kSecret});
  ASSERT_TRUE(name.ok());
  transport_->add_region(kPeer, 1, client_.region());
  push(64, 7, 0, 64);
  EXPECT_EQ(answered(), 0U);
  ASSERT_TRUE(until([&] { return answered() == 1; }));
}

TEST_P(FabricEager, APeerThatGoesTakesItsEagerResultsAlong) {
  push(64, 7, 0, 64);
  push(64, 8, 0, 64);
  complete(7);
  EXPECT_EQ(answered(), 2U);
  arrived(onesided::small_notice(9), std::vector<std::byte>(64));
  client_.vanish();
  transport_->detach(kPeer);
  EXPECT_EQ(answered(), 0U);
}

class NothingEager : public FabricEager {};

TEST_P(NothingEager, WhereMemoryThatIsSentWouldHaveToBeKnown) {
  EXPECT_EQ(transport_->eager_bytes(), 0U);
  push(64, 7, 0, 64);
  EXPECT_EQ(answered(), 0U);
  ASSERT_TRUE(until([&] { return answered() == 1; }));
}

INSTANTIATE_TEST_SUITE_P(, NothingEager, ::testing::Values(Provider::kPicky));
INSTANTIATE_TEST_SUITE_P(, FabricEager, ::testing::Values(Provider::kAsItIs, Provider::kLayered),
                         [](const auto& provider) {
                           return kNames[static_cast<std::size_t>(provider.param)];
                         });

}  // namespace
}  // namespace tally::transport::fabric
